package clients

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/job/clean/cleantest"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
)

// storedLog is what a partition has.
type storedLog struct {
	batches []kafkaproto.RecordBatch
	aborted []extent.Aborted // of which the marker is among the batches
}

// fetchAll is fetchPartition of partition 0.
func fetchAll(t *testing.T, w *wire, topic string, from int64) storedLog {
	t.Helper()
	return fetchPartition(t, w, topic, 0, from)
}

// fetchPartition reads a partition from an offset to its end, in batches as they are stored.
func fetchPartition(t *testing.T, w *wire, topic string, partition int32, from int64) storedLog {
	t.Helper()
	var l storedLog
	firsts := make(map[[2]int64]bool) // producer and first offset
	for next := from; ; {
		req := fetchFrom(topic, [16]byte{}, partition, next)
		req.IsolationLevel = 1
		p := ask[*kmsg.FetchResponse](t, w, req, 12).Topics[0].Partitions[0]
		require.Zero(t, p.ErrorCode, code(p.ErrorCode))
		require.Equal(t, p.HighWatermark, p.LastStableOffset)
		for _, a := range p.AbortedTransactions {
			firsts[[2]int64{a.ProducerID, a.FirstOffset}] = true
		}
		got := 0
		for b, err := range kafkaproto.Batches(p.RecordBatches) {
			if err != nil {
				break // cut by the byte limit
			}
			got++
			if b.LastOffset() >= next {
				l.batches = append(l.batches, b)
			}
			next = b.LastOffset() + 1
		}
		if got == 0 {
			require.Equal(t, p.HighWatermark, next, "an answer without records is at the end")
			l.findMarkers(t, firsts)
			return l
		}
	}
}

// findMarkers finds where each aborted transaction ends.
func (l *storedLog) findMarkers(t *testing.T, firsts map[[2]int64]bool) {
	t.Helper()
	for f := range firsts {
		found := false
		for _, b := range l.batches {
			if m, ok := kafkaproto.MarkerOf(b); ok && !found && b.ProducerID() == f[0] && b.BaseOffset() > f[1] {
				require.Equal(t, kafkaproto.Abort, m)
				l.aborted = append(l.aborted, extent.Aborted{ProducerID: f[0], First: f[1], Last: b.BaseOffset()})
				found = true
			}
		}
		require.True(t, found, "marker of producer %d after %d", f[0], f[1])
	}
}

// What list tells of.
const (
	records = false
	markers = true
)

// list tells each record, or each marker, that is in batches.
func list(t *testing.T, batches []kafkaproto.RecordBatch, of bool) (lines []string) {
	t.Helper()
	for _, b := range batches {
		if b.Control() != of {
			continue
		}
		for _, r := range cleantest.Open(t, b) {
			if m, ok := kafkaproto.MarkerOf(b); ok {
				lines = append(lines, fmt.Sprintf("%d: marker %d of %d at %d", r.Offset, m, b.ProducerID(), r.Timestamp))
			} else {
				lines = append(lines, line(&r))
			}
		}
	}
	return lines
}
