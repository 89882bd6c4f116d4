package fetch

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/view/viewtest"
	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/id"
)

// fakeInternal is a log of batches of one record each, at even offsets, that ends at an odd one.
type fakeInternal struct {
	records int64
	asked   int
	err     error
}

func (f *fakeInternal) ReadInternal(_ context.Context, wants []InternalWant, bytes int) ([]InternalRead, error) {
	f.asked++
	reads := make([]InternalRead, len(wants))
	for i, w := range wants {
		reads[i].HighWatermark = 2*f.records + 1
		for at := w.Offset + w.Offset%2; at < 2*f.records && len(reads[i].Records) < bytes; at += 2 {
			reads[i].Records = kafkaproto.AppendRecords(reads[i].Records, []kafkaproto.KeyedRecord{{Offset: at, Value: []byte("v")}})
		}
	}
	return reads, f.err
}

func internalPart(topic *internaltopic.Topic, offset int64) Partition {
	return Partition{ID: id.TopicPartition{Topic: topic.ID, Partition: 3}, Offset: offset, MaxBytes: 1 << 20}
}

func TestFetcher_InternalTopics(t *testing.T) {
	source := &fakeInternal{records: 2}
	bubble(t, Config{Internal: source}, func(e *env) {
		t := e.t
		began := time.Now()
		resp := e.fetch(t, request(internalPart(&internaltopic.Offsets, 1), part(0, 0)))
		require.NoError(t, errOf(resp, 0))
		var offsets []int64
		for b, err := range kafkaproto.Batches(records(&resp.Results[0])) {
			require.NoError(t, err)
			offsets = append(offsets, b.BaseOffset())
		}
		require.Equal(t, []int64{2}, offsets)
		require.EqualValues(t, 5, resp.Results[0].Marks.HighWatermark)
		require.Zero(t, time.Since(began), "records end the wait for other partitions")
		require.Equal(t, resp.Results[0].Size, resp.Bytes)

		// At the end it waits, and then passes what has no records.
		resp = e.fetch(t, request(internalPart(&internaltopic.Offsets, 3)))
		require.Equal(t, 500*time.Millisecond, time.Since(began))
		b := kafkaproto.RecordBatch(records(&resp.Results[0]))
		require.Zero(t, b.RecordCount())
		require.EqualValues(t, 4, b.LastOffset())
		resp = e.fetch(t, request(internalPart(&internaltopic.Offsets, 5)))
		require.Zero(t, resp.Bytes)
		require.NoError(t, errOf(resp, 0))

		// Records of other partitions end the wait too.
		time.AfterFunc(100*time.Millisecond, func() { e.produce(t, tp(0), batch(10, 1)) })
		began = time.Now()
		resp = e.fetch(t, request(internalPart(&internaltopic.Offsets, 5), part(0, 0)))
		require.NotZero(t, resp.Results[1].Size)
		require.Equal(t, 100*time.Millisecond, time.Since(began))
	})
}

func TestFetcher_TransactionStateIsEmpty(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		began := time.Now()
		resp := e.fetch(e.t, request(internalPart(&internaltopic.Transactions, 0)))
		require.NoError(e.t, errOf(resp, 0))
		require.Equal(e.t, 500*time.Millisecond, time.Since(began))
		resp = e.fetch(e.t, request(internalPart(&internaltopic.Transactions, 1)))
		require.Equal(e.t, kerr.OffsetOutOfRange, errOf(resp, 0))
	})
}

func TestFetcher_InternalTopicsWithoutOwner(t *testing.T) {
	bubble(t, Config{Internal: &fakeInternal{err: errors.New("away")}}, func(e *env) {
		e.produce(e.t, tp(0), batch(10, 1))
		resp := e.fetch(e.t, request(internalPart(&internaltopic.Offsets, 0), part(0, 0)))
		require.Equal(e.t, kerr.NotLeaderForPartition, errOf(resp, 0))
		require.NotZero(e.t, resp.Results[1].Size)
	})
}

func TestOffsets_InternalTopics(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		e.produce(e.t, tp(0), batch(10, 1))
		o := e.offsets(e.t)
		o.cfg.Internal = &fakeInternal{records: 2}
		log, none := internalPart(&internaltopic.Offsets, 0).ID, internalPart(&internaltopic.Transactions, 0).ID
		got := o.List(e.t.Context(), []OffsetWant{
			{log, TimestampLatest}, {tp(0), TimestampLatest}, {log, TimestampEarliest}, {none, TimestampLatest}, {log, 0}, {log, TimestampMax},
		}, false)
		require.Equal(e.t, []OffsetResult{{nil, 5, -1}, {nil, 1, -1}, {nil, 0, -1}, {nil, 0, -1}, noOffset, noOffset}, got)
		e.owner.Count(func(o *viewtest.Owner) { require.Equal(e.t, 1, o.Lookups) })
	})
}
