package removal

import (
	"io"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/job/clean/cleantest"
	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	jobs "github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// oracle knows every record that was written, and which of them may have gone.
type oracle struct {
	partitions map[id.TopicPartition]map[int64]*record
	plans      map[id.Session]jobs.CleanSpec // of Clean jobs that were given
}

// record is one that was written.
type record struct {
	cleantest.Record
	producer int64     // of its transaction; 0 without
	ended    bool      // the transaction has ended
	aborted  bool      // by its end
	appended time.Time // true time
	gone     bool      // and rightly so
	horizon  int64     // of a tombstone: the earliest time at which a cleaning may drop it, ms; 0 before the first cleaning
}

func newOracle() *oracle {
	return &oracle{partitions: map[id.TopicPartition]map[int64]*record{}, plans: map[id.Session]jobs.CleanSpec{}}
}

func (o *oracle) written(tp id.TopicPartition, base int64, records []cleantest.Record, x *transaction, now time.Time) {
	if o.partitions[tp] == nil {
		o.partitions[tp] = map[int64]*record{}
	}
	for i, r := range records {
		r.Offset = base + int64(i)
		n := &record{Record: r, ended: x == nil, appended: now}
		if x != nil {
			n.producer = x.producer
		}
		o.partitions[tp][r.Offset] = n
	}
}

func (o *oracle) ended(producer int64, committed bool) {
	for _, p := range o.partitions {
		for _, r := range p {
			if r.producer == producer && !r.ended {
				r.ended, r.aborted = true, !committed
			}
		}
	}
}

// age is how old a record is by the true time, as Kafka counts it. Without a timestamp, it is as old as the newest one of its
// extent, as in Kafka of its segment, or else as the command that appended it.
func (r *record) age(extent int64) time.Duration {
	switch {
	case r.Timestamp >= 0:
		return time.Since(time.UnixMilli(r.Timestamp))
	case extent >= 0:
		return time.Since(time.UnixMilli(extent))
	}
	return time.Since(r.appended) + clockSlack
}

// view is what a reader of committed records sees of a partition.
type view struct {
	records  map[int64]cleantest.Record
	extents  map[int64]int64 // by offset: largest timestamp of the extent
	logStart int64
}

// read reads a partition as a consumer does, from its log start to its last stable offset.
func (w *world) read(s *metadata.State, tp id.TopicPartition) view {
	w.t.Helper()
	marks, _ := s.Watermarks(tp)
	v := view{records: map[int64]cleantest.Record{}, extents: map[int64]int64{}, logStart: marks.LogStart}
	aborted := s.AbortedTransactions(tp, marks.LogStart, marks.HighWatermark)
	exts, _ := s.Extents(tp, marks.LogStart, 0, 0)
	next := int64(-1)
	for i := range exts {
		x := &exts[i]
		if next >= 0 {
			require.Equal(w.t, next, x.Base, "a hole in %s", tp)
		}
		next = x.Last + 1
		if x.Kind != extent.Marker {
			w.readExtent(&v, x, aborted, marks.LastStable)
		}
	}
	require.True(w.t, next < 0 || next == marks.HighWatermark, "%s ends at %d of %d", tp, next, marks.HighWatermark)
	return v
}

func (w *world) readExtent(v *view, x *extent.Extent, aborted []extent.Aborted, lastStable int64) {
	w.t.Helper()
	body, err := w.bucket.Get(w.t.Context(), bundle.Key(prefix, x.Bundle), int64(x.Position), int64(x.Length))
	require.NoError(w.t, err, "a live extent's object")
	defer body.Close()
	p, err := io.ReadAll(body)
	require.NoError(w.t, err)
	next := x.Base
	for b, err := range kafkaproto.Batches(p) {
		require.NoError(w.t, err)
		if x.Kind == extent.Relative {
			b.SetBaseOffset(next)
		}
		next = b.LastOffset() + 1
		skipped := b.Control() || b.LastOffset() >= lastStable || b.Transactional() && slices.ContainsFunc(aborted, func(a extent.Aborted) bool {
			return a.ProducerID == b.ProducerID() && a.First <= b.BaseOffset() && b.BaseOffset() <= a.Last
		})
		if skipped {
			continue
		}
		for _, r := range cleantest.Open(w.t, b) {
			if r.Offset >= v.logStart {
				v.records[r.Offset], v.extents[r.Offset] = r, x.MaxTimestamp
			}
		}
	}
}

// lookAt returns what can be read of the partitions from which a command can remove records.
func (w *world) lookAt(c metadata.Command) map[id.TopicPartition]view {
	views := map[id.TopicPartition]view{}
	switch c := c.(type) {
	case *metadata.CompleteJob:
		if j, ok := w.state.Job(c.Job); ok {
			for _, tp := range w.oracle.names() {
				if j.Covers(tp) {
					views[tp] = w.read(w.state, tp)
				}
			}
		}
	case *metadata.RetainPartitions:
		for _, t := range c.Trims {
			views[t.Partition] = w.read(w.state, t.Partition)
		}
	case *metadata.TrimPartitions:
		for _, t := range c.Trims {
			views[t.Partition] = w.read(w.state, t.Partition)
		}
	}
	return views
}

func (o *oracle) names() []id.TopicPartition {
	return slices.SortedFunc(maps.Keys(o.partitions), id.TopicPartition.Compare)
}

// judge has each record that a command removed justified.
func (w *world) judge(c metadata.Command, before map[id.TopicPartition]view, r metadata.Result) {
	w.t.Helper()
	if j, ok := c.(*metadata.CompleteJob); ok && r.Err == nil {
		if r.Value.(metadata.JobResult).Replaced > 0 {
			if _, cleans := w.oracle.plans[j.Job]; cleans {
				w.counts.cleaned++
			} else {
				w.counts.compacted++
			}
		}
	}
	for tp, was := range before {
		is := w.read(w.state, tp)
		for offset := range was.records {
			if _, there := is.records[offset]; there {
				continue
			}
			n := w.oracle.partitions[tp][offset]
			require.NotNil(w.t, n)
			switch c := c.(type) {
			case *metadata.TrimPartitions:
				require.Less(w.t, offset, is.logStart)
			case *metadata.RetainPartitions:
				w.justifyRetention(tp, n, was)
				w.counts.retained++
			case *metadata.CompleteJob:
				w.justifyCleaning(c.Job, tp, n, was, is)
				w.counts.removed++
			}
			n.gone = true
		}
		for offset := range is.records {
			_, there := was.records[offset]
			require.True(w.t, there, "offset %d of %s has come back", offset, tp)
		}
		if j, ok := c.(*metadata.CompleteJob); ok {
			w.setHorizons(j.Job, tp, is)
		}
	}
}

func (w *world) values(t id.Topic) topicconfig.Values {
	topic, ok := w.state.Topic(t)
	require.True(w.t, ok, "what is deleted stays as it is")
	return topicconfig.Resolve(topic.Configs, w.state.Configs(metadata.ConfigBroker, ""))
}

func (w *world) justifyRetention(tp id.TopicPartition, n *record, was view) {
	w.t.Helper()
	v, age := w.values(tp.Topic), n.age(was.extents[n.Offset])
	require.True(w.t, v.Delete, "offset %d of %s went by retention without the delete policy", n.Offset, tp)
	byTime := v.Retention >= 0 && age > v.Retention
	bySize := v.RetentionBytes >= 0 && w.state.PartitionBytes(tp) >= v.RetentionBytes
	require.True(w.t, byTime || bySize, "offset %d of %s went at the age of %v (timestamp %d), retention %v, %d bytes of %d left", n.Offset, tp, age, n.Timestamp, v.Retention, w.state.PartitionBytes(tp), v.RetentionBytes)
}

func (w *world) justifyCleaning(n id.Session, tp id.TopicPartition, r *record, was, is view) {
	w.t.Helper()
	spec, cleans := w.oracle.plans[n]
	require.True(w.t, cleans, "offset %d of %s went by a compaction", r.Offset, tp)
	v := w.values(tp.Topic)
	require.True(w.t, v.Compact, "offset %d of %s was cleaned without the compact policy", r.Offset, tp)
	old := func(r *record) bool {
		return v.MinCompactionLag == 0 || r.age(was.extents[r.Offset]) >= v.MinCompactionLag
	}
	// What was cleaned before is cleaned anew, whatever the lag is now: the lag decides where the dirty part ends, as in Kafka.
	require.True(w.t, r.Offset < spec.FirstDirty || old(r), "offset %d of %s was cleaned before its lag", r.Offset, tp)
	require.LessOrEqual(w.t, spec.NowMs, time.Now().UnixMilli(), "a cleaning goes by a time to come")
	if r.Key == nil {
		return
	}
	for offset, s := range is.records {
		if offset > r.Offset && string(s.Key) == string(r.Key) && s.Key != nil && old(w.oracle.partitions[tp][offset]) {
			return
		}
	}
	require.Nil(w.t, r.Value, "offset %d of %s went, and no later record has its key", r.Offset, tp)
	require.Positive(w.t, r.horizon, "the tombstone at %d of %s went with the first cleaning", r.Offset, tp)
	require.GreaterOrEqual(w.t, spec.NowMs, r.horizon, "the tombstone at %d of %s went before its horizon", r.Offset, tp)
	for offset, s := range is.records {
		require.False(w.t, offset < r.Offset && s.Key != nil && string(s.Key) == string(r.Key), "the value at %d of %s is back, its tombstone was at %d", offset, tp, r.Offset)
	}
}

// setHorizons notes the tombstones that a cleaning has met and left.
func (w *world) setHorizons(n id.Session, tp id.TopicPartition, is view) {
	spec, cleans := w.oracle.plans[n]
	cleanedTo := w.state.CleanedTo(tp)
	for offset := range is.records {
		r := w.oracle.partitions[tp][offset]
		if cleans && offset < cleanedTo && r.Value == nil && r.horizon == 0 {
			r.horizon = spec.NowMs + spec.DeleteRetentionMs
		}
	}
}

// check compares all that can be read with all that must be there.
func (w *world) check() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, tp := range w.oracle.names() {
		if _, ok := w.state.Topic(tp.Topic); !ok {
			continue
		}
		marks, _ := w.state.Watermarks(tp)
		is := w.read(w.state, tp)
		for offset, r := range w.oracle.partitions[tp] {
			got, there := is.records[offset]
			switch {
			case r.aborted:
				require.False(w.t, there, "aborted record at %d of %s", offset, tp)
			case r.gone || offset < marks.LogStart || !r.ended || offset >= marks.LastStable:
				require.True(w.t, !there || !r.gone, "the record at %d of %s is back", offset, tp)
			default:
				require.True(w.t, there, "the record at %d of %s is lost", offset, tp)
				require.Equal(w.t, r.Key, got.Key)
				require.Equal(w.t, r.Value, got.Value)
				require.Equal(w.t, r.Timestamp, got.Timestamp)
			}
		}
	}
}
