package kafka

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// extremeBatches are batches with one field each at or beyond its bounds. Some are valid.
func extremeBatches() map[string][]byte {
	all := map[string][]byte{}
	add := func(name string, change func(kafkaproto.RecordBatch)) {
		for _, idempotent := range []string{"", ", idempotent"} {
			b := recordBatch("a", "b")
			if idempotent != "" {
				b = from(int64(9000+len(all)), 0, b)
			}
			change(b)
			all[name+idempotent] = sealed(b)
		}
	}
	numbers := func(name string, at, size int, values ...int64) {
		for _, v := range values {
			add(name+" "+big(v), func(b kafkaproto.RecordBatch) {
				for i := range size {
					b[at+i] = byte(v >> (8 * (size - 1 - i)))
				}
			})
		}
	}
	numbers("base offset", 0, 8, 1, -1, math.MaxInt64, math.MinInt64)
	numbers("length", 8, 4, 0, -1, 48, 49, math.MaxInt32, math.MinInt32)
	numbers("leader epoch", 12, 4, -1, math.MaxInt32, math.MinInt32)
	numbers("magic", 16, 1, 0, 1, 3, 127, -1)
	numbers("attributes", 21, 2, 1, 2, 3, 4, 5, 7, 8, 16, 32, 64, 128, 1<<14, -1)
	numbers("last offset delta", 23, 4, 0, 2, -1, math.MaxInt32-1, math.MaxInt32, math.MinInt32)
	numbers("base timestamp", 27, 8, 0, -1, -2, math.MaxInt64, math.MinInt64)
	numbers("largest timestamp", 35, 8, 0, -1, -2, math.MaxInt64-1, math.MaxInt64, math.MinInt64)
	numbers("producer id", 43, 8, 0, -1, -2, math.MaxInt64, math.MinInt64)
	numbers("producer epoch", 51, 2, -1, -2, math.MaxInt16, math.MinInt16)
	numbers("base sequence", 53, 4, -1, -2, 1, math.MaxInt32, math.MinInt32)
	numbers("record count", 57, 4, 0, 1, 3, -1, math.MaxInt32, math.MinInt32)
	add("both timestamps at the maximum", func(b kafkaproto.RecordBatch) {
		binary.BigEndian.PutUint64(b[27:], math.MaxInt64)
		binary.BigEndian.PutUint64(b[35:], math.MaxInt64)
	})
	add("as many records as can be claimed", func(b kafkaproto.RecordBatch) {
		b[22] |= byte(kafkaproto.Gzip)
		binary.BigEndian.PutUint32(b[23:], math.MaxInt32-1)
		binary.BigEndian.PutUint32(b[57:], math.MaxInt32)
	})
	add("transactional", func(b kafkaproto.RecordBatch) { b[22] |= 0x10 })
	return all
}

func big(v int64) string {
	switch v {
	case math.MaxInt64, math.MaxInt64 - 1, math.MinInt64:
		return map[int64]string{math.MaxInt64: "max", math.MaxInt64 - 1: "max-1", math.MinInt64: "min"}[v]
	}
	return strconv.FormatInt(v, 10)
}

// TestProduce_ExtremeBatchesBesideOthers lets 100 clients produce, and between them one batch of each extreme kind arrive. The
// clients see success alone, and the state can be restored.
func TestProduce_ExtremeBatchesBesideOthers(t *testing.T) {
	synctest.Test(t, extremeBatchesBesideOthers)
}

func extremeBatchesBesideOthers(t *testing.T) {
	t.Helper()
	r := newProduceRig(t)
	const open = 7 // a topic that takes every timestamp
	topicNames[open] = "open"
	defer delete(topicNames, open)
	_, err := r.seq.do(&metadata.CreateTopic{ID: id.Topic(topicID(open)), Name: "open", Partitions: 12})
	require.NoError(t, err)
	r.catalogue.OnCatalogue(&api.Catalogue{Index: 3, Topics: []*api.Topic{{Id: topicID(open), Name: "open", Partitions: 12, Configs: map[string]string{
		"message.timestamp.before.max.ms": "9223372036854775807", "message.timestamp.after.max.ms": "9223372036854775807",
	}}}})
	r.writer.OnWelcome(&api.Welcome{Session: 1, NextN: 1})

	const clients = 100
	extreme := extremeBatches()
	require.Greater(t, len(extreme), clients)
	var honest, hostile []func() edge.Reply
	number := int32(0)
	for _, name := range slices.Sorted(maps.Keys(extreme)) {
		b := extreme[name]
		hostile = append(hostile, r.begin(t.Context(), 13, produceOf(-1, to{open, number % 12, b})))
		if number < 3*clients {
			client := int64(number % clients)
			good := from(100+client, number/clients, recordBatch("good"))
			parts := []to{{open, int32(client % 12), good}}
			// Every fourth client sends the extreme batch in its own request too; a transactional one would concern all of it.
			if client%4 == 2 && len(b) > 22 && b[22]&0x10 == 0 {
				parts = append(parts, to{1, 11, b})
			}
			honest = append(honest, r.begin(t.Context(), 13, produceOf(-1, parts...)))
		}
		number++
	}
	code := func(wait func() edge.Reply) int16 {
		out := kmsg.NewPtrProduceResponse()
		out.SetVersion(13)
		require.NoError(t, out.ReadFrom(wait().Head))
		return out.Topics[0].Partitions[0].ErrorCode
	}
	for _, wait := range honest {
		require.Zero(t, code(wait))
	}
	refused := 0
	for _, wait := range hostile {
		if c := code(wait); c != 0 {
			require.NotEqual(t, kerr.UnknownServerError.Code, c)
			refused++
		}
	}
	t.Logf("of %d extreme batches %d were refused", len(hostile), refused)

	var snapshot bytes.Buffer
	require.NoError(t, r.seq.state.Snapshot().Encode(&snapshot))
	restored, err := metadata.Decode(&snapshot)
	require.NoError(t, err)
	require.Equal(t, r.seq.state.Hash(), restored.Hash())
	largest := int64(math.MinInt64)
	for p := range int32(12) {
		if x, ok := restored.MaxTimestampExtent(id.TopicPartition{Topic: id.Topic(topicID(open)), Partition: p}, 0, math.MaxInt64); ok {
			largest = max(largest, x.MaxTimestamp)
		}
	}
	require.EqualValues(t, math.MaxInt64, largest)
}
