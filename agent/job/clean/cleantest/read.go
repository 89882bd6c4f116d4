package cleantest

import (
	"encoding/binary"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// Batches reads all batches of the log with their true offsets, markers as control batches, and checks that extents are
// what their bytes say.
func (l *Log) Batches(tb testing.TB) []kafkaproto.RecordBatch {
	tb.Helper()
	var all []kafkaproto.RecordBatch
	next := int64(-1)
	for i := range l.Extents {
		x := &l.Extents[i]
		if next >= 0 {
			require.Equal(tb, next, x.Base, "extents leave no hole")
		}
		next = x.Last + 1
		all = append(all, l.read(tb, x)...)
	}
	return all
}

func (l *Log) read(tb testing.TB, x *extent.Extent) []kafkaproto.RecordBatch {
	tb.Helper()
	if x.Kind == extent.Marker {
		m, end := x.EndMarker(), kafkaproto.Abort
		if m.Commit {
			end = kafkaproto.Commit
		}
		return []kafkaproto.RecordBatch{
			kafkaproto.AppendControlBatch(nil, x.Base, x.MaxTimestamp, m.ProducerID, m.Epoch, end, m.CoordinatorEpoch),
		}
	}
	body, err := l.Bucket.Get(tb.Context(), bundle.Key("", x.Bundle), int64(x.Position), int64(x.Length))
	require.NoError(tb, err)
	defer body.Close()
	p, err := io.ReadAll(body)
	require.NoError(tb, err)
	var batches []kafkaproto.RecordBatch
	next, timestamp := x.Base, int64(-1)
	for b, err := range kafkaproto.Batches(p) {
		require.NoError(tb, err)
		require.Equal(tb, b.ComputeCRC(), b.CRC())
		if x.Kind == extent.Relative {
			b.SetBaseOffset(next)
		} else {
			require.EqualValues(tb, kafkaproto.LogEpoch, b.PartitionLeaderEpoch())
		}
		require.GreaterOrEqual(tb, b.BaseOffset(), next)
		require.LessOrEqual(tb, b.LastOffset(), x.Last)
		next, timestamp = b.LastOffset()+1, max(timestamp, b.MaxTimestamp())
		batches = append(batches, b)
	}
	require.EqualValues(tb, x.Batches, len(batches))
	require.Equal(tb, x.MaxTimestamp, timestamp)
	return batches
}

var decompressor = kgo.DefaultDecompressor()

// Open gives a batch's records as another implementation reads them, franz-go's.
func Open(tb testing.TB, b kafkaproto.RecordBatch) []Record {
	tb.Helper()
	var head kmsg.RecordBatch
	require.NoError(tb, head.ReadFrom(b))
	p, err := decompressor.Decompress(head.Records, kgo.CompressionCodecType(b.Codec()))
	require.NoError(tb, err)
	var records []Record
	for range head.NumRecords {
		n, at := varint(tb, p)
		var r kmsg.Record
		require.NoError(tb, r.ReadFrom(p[:at+n]))
		p = p[at+n:]
		timestamp := head.FirstTimestamp + r.TimestampDelta64
		if b.LogAppendTime() {
			timestamp = head.MaxTimestamp
		}
		records = append(records, Record{
			Offset: head.FirstOffset + int64(r.OffsetDelta), Timestamp: timestamp, Key: r.Key, Value: r.Value,
			Headers: r.Headers,
		})
	}
	require.Empty(tb, p)
	return records
}

// varint reads a zigzag varint, and tells how many bytes it took.
func varint(tb testing.TB, p []byte) (v, n int) {
	tb.Helper()
	long, n := binary.Varint(p)
	require.Positive(tb, n)
	return int(long), n
}
