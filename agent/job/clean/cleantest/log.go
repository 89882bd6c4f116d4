package cleantest

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/job/clean"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/mem"
)

// Log is one partition.
type Log struct {
	ID        id.TopicPartition
	Bucket    objstore.Bucket
	Extents   []extent.Extent
	Aborted   []extent.Aborted
	LogStart  int64
	High      int64
	CleanedTo int64

	session id.Session // the last one that wrote
}

// New gives a partition without records.
func New() *Log {
	return &Log{ID: id.TopicPartition{Topic: id.Topic{1}, Partition: 3}, Bucket: mem.New()}
}

// Append writes batches into a bundle of their own, as an agent does: one extent, whose batches take the offsets from
// High on, whatever their own are. It gives the base offset.
func (l *Log) Append(tb testing.TB, batches ...kafkaproto.RecordBatch) int64 {
	tb.Helper()
	x := l.bundle(tb, batches)
	x.Base, x.Kind = l.High, extent.Relative
	for _, b := range batches {
		l.High += int64(b.LastOffsetDelta()) + 1
	}
	x.Last = l.High - 1
	l.Extents = append(l.Extents, x)
	return x.Base
}

// AppendAbsolute writes batches that have their true offsets, from High or above it on, as another job would have left
// them: one extent. Their leader epochs become 0.
func (l *Log) AppendAbsolute(tb testing.TB, batches ...kafkaproto.RecordBatch) {
	tb.Helper()
	for _, b := range batches {
		b.SetPartitionLeaderEpoch(kafkaproto.LogEpoch)
	}
	x := l.bundle(tb, batches)
	x.Base, x.Kind, x.Last = l.High, extent.Absolute, batches[len(batches)-1].LastOffset()
	l.High = x.Last + 1
	l.Extents = append(l.Extents, x)
}

func (l *Log) bundle(tb testing.TB, batches []kafkaproto.RecordBatch) extent.Extent {
	tb.Helper()
	l.session++
	name := id.Submission{Session: l.session, N: 1}
	var e bundle.Encoder
	e.Reset(name)
	x := extent.Extent{
		MaxTimestamp: -1, Bundle: name.Bundle(), Batches: uint32(len(batches)), Position: e.Section(l.ID),
	}
	for _, b := range batches {
		require.NoError(tb, e.Batch(b))
		x.Length += uint32(len(b))
		x.MaxTimestamp = max(x.MaxTimestamp, b.MaxTimestamp())
	}
	body, _ := e.Finish()
	require.NoError(tb, l.Bucket.Put(tb.Context(), bundle.Key("", x.Bundle), body))
	return x
}

// AppendMarker ends a producer's transaction. first is the offset of its first record, if it was aborted and has one, else
// -1.
func (l *Log) AppendMarker(producer int64, commit bool, first, timestamp int64) {
	l.Extents = append(l.Extents, extent.NewMarker(l.High, timestamp, extent.EndMarker{
		ProducerID: producer, Epoch: 1, Commit: commit, CoordinatorEpoch: 7,
	}))
	if !commit && first >= 0 {
		l.Aborted = append(l.Aborted, extent.Aborted{ProducerID: producer, First: first, Last: l.High})
	}
	l.High++
}

// Trim raises the log start, as retention and DeleteRecords do.
func (l *Log) Trim(to int64) {
	l.LogStart = max(l.LogStart, to)
	l.Extents = slices.DeleteFunc(l.Extents, func(x extent.Extent) bool { return x.Last < l.LogStart })
	l.Aborted = slices.DeleteFunc(l.Aborted, func(a extent.Aborted) bool { return a.Last < l.LogStart })
}

// Plan gives the plan that cleans all extents below upTo.
func (l *Log) Plan(upTo int64, spec job.CleanSpec) *job.Plan {
	l.session++
	spec.FirstDirty = max(l.LogStart, l.CleanedTo)
	p := job.Partition{ID: l.ID, Clean: &spec, Aborted: slices.Clone(l.Aborted)}
	for _, x := range l.Extents {
		if x.Last < upTo {
			p.Extents = append(p.Extents, x)
		}
	}
	return &job.Plan{ID: l.session, Kind: job.Clean, Level: 2, Partitions: []job.Partition{p}}
}

// Env gives what Run needs to clean the log.
func (l *Log) Env() clean.Env {
	return clean.Env{Bucket: l.Bucket, Metrics: clean.NewMetrics(prometheus.NewRegistry())}
}

// Apply takes an outcome over, as the state machine does, through its codec.
func (l *Log) Apply(tb testing.TB, o *job.Outcome) {
	tb.Helper()
	o, err := job.ParseOutcome(job.AppendOutcome(nil, o))
	require.NoError(tb, err)
	require.Len(tb, o.Partitions, 1)
	r := o.Partitions[0]
	require.Equal(tb, l.Extents[0].Base, r.From)
	at := slices.IndexFunc(l.Extents, func(x extent.Extent) bool { return x.Last == r.To })
	require.GreaterOrEqual(tb, at, 0, "ends where an extent does")
	l.Extents = append(slices.Clone(r.Extents), l.Extents[at+1:]...)
	for _, marker := range r.DroppedAborted {
		n := len(l.Aborted)
		l.Aborted = slices.DeleteFunc(l.Aborted, func(a extent.Aborted) bool { return a.Last == marker })
		require.Equal(tb, n-1, len(l.Aborted), "aborted transaction that ends at %d", marker)
	}
	require.Greater(tb, r.CleanedTo, max(l.LogStart, l.CleanedTo), "every cleaning gets further")
	require.LessOrEqual(tb, r.CleanedTo, r.To+1)
	l.CleanedTo = r.CleanedTo
}
