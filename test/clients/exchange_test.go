package clients

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// baseTime is the timestamp, in ms, that records count from: an hour ago.
func baseTime() int64 { return time.Now().Add(-time.Hour).Truncate(time.Second).UnixMilli() }

// sample are records of every shape: null and empty keys and values, headers without and with values, the same header
// twice, bytes that are no text, values that compress and a large one; timestamps not in order.
func sample(partition int32, base int64) []record {
	at := func(i int) int64 { return base + []int64{0, 3000, 1000, 5000, 2000, 4000}[i%6] + int64(i/6)*10_000 }
	noText := []byte{0, 0xff, 0xfe, '\n', 0x80}
	records := []record{
		{Key: []byte("key"), Value: []byte("value")},
		{Value: []byte("no key")},
		{Key: []byte("no value")},
		{},
		{Key: []byte{}, Value: []byte{}},
		{Key: noText, Value: noText},
		{Key: []byte("headers"), Value: []byte("v"), Headers: []header{
			{"a", []byte("1")}, {"null", nil}, {"empty", []byte{}}, {"a", []byte("2")}, {"bytes", noText}, {"ünï", []byte("x")},
		}},
		{Key: []byte("long"), Value: bytes.Repeat([]byte("compress me "), 20_000)},
	}
	for i := range 40 {
		records = append(records, record{Key: fmt.Append(nil, "key-", i), Value: []byte(strings.Repeat(fmt.Sprint(i, " "), 50))})
	}
	for i := range records {
		records[i].Partition, records[i].Timestamp = partition, at(i)
	}
	return records
}

// TestExchange: each client family creates a topic and produces every shape of record with every codec; every family
// reads what every other wrote, field by field the same.
func TestExchange(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t)
	exchange(t, dev.Bootstrap, dev.Bootstrap)
}

// TestExchange_TwoAgents: written through one agent, read from another.
func TestExchange_TwoAgents(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterConfig{
		Agents: 2, ControlPlanes: 1,
		AgentFlags: []string{"--put-budget", "100"}, // the server here does not charge for PUTs
	})
	exchange(t, c.Agents[0].Bootstrap, c.Agents[1].Bootstrap)
}

func exchange(t *testing.T, in, out string) {
	t.Helper()
	all, base := families(t), baseTime()
	wrote := map[string][][]record{} // by family and codec
	for name, f := range all {
		t.Run(name+" writes", func(t *testing.T) {
			mustCreate(t, f, job{Bootstrap: in, Topic: name, Partitions: int32(len(codecs))})
			for p, codec := range codecs {
				records := sample(int32(p), base)
				at := mustProduce(t, f, job{
					Bootstrap: in, Topic: name, Codec: codec, Acks: "all", Idempotent: p%2 == 0, Records: records,
				})
				for i := range records {
					require.Equal(t, int64(i), at[i], codec)
					records[i].Offset = int64(i)
				}
				wrote[name] = append(wrote[name], records)
			}
		})
	}
	for name, f := range all {
		t.Run(name+" reads", func(t *testing.T) {
			for writer, partitions := range wrote {
				for p, want := range partitions {
					got := mustConsume(t, f, job{Bootstrap: out, Topic: writer, Partition: int32(p), From: "earliest", Count: len(want)})
					same(t, want, got, "%s with %s, read by %s", writer, codecs[p], name)
				}
			}
		})
	}
}

// same compares records field by field. No client tells null from empty in all places, so what is compared is what
// the reader can say; a family's own writing is read by three others.
func same(t *testing.T, want, got []record, words string, args ...any) {
	t.Helper()
	where := fmt.Sprintf(words, args...)
	require.Len(t, got, len(want), where)
	for i := range want {
		w, g := want[i], got[i]
		if len(w.Headers) == 0 && len(g.Headers) == 0 {
			w.Headers, g.Headers = nil, nil
		}
		require.Equal(t, w, g, "%s, record %d", where, i)
	}
}
