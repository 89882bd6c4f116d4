package merge_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

const prefix = "vc/"

// world is a bucket with bundles of agents, and what a sequencer would know of them.
type world struct {
	t       testing.TB
	rng     *rand.Rand
	bucket  *mem.Bucket
	logs    map[id.TopicPartition]*partitionLog
	bundles int

	batchBytes int // largest batch
}

// partitionLog is one partition: its extents, and the oracle: what a reader must get.
type partitionLog struct {
	next    int64
	extents []extent.Extent
	batches [][]byte // with true offsets
}

func newWorld(t testing.TB, seed uint64) *world {
	t.Helper()
	return &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), bucket: mem.New(), logs: map[id.TopicPartition]*partitionLog{},
		batchBytes: 3000,
	}
}

func tp(topic byte, n int32) id.TopicPartition {
	return id.TopicPartition{Topic: id.Topic{topic}, Partition: n}
}

// batch makes a record batch with a wrong base offset and leader epoch, as producers send them.
func (w *world) batch() []byte {
	records := 1 + w.rng.Int32N(20)
	p := make([]byte, kafkaproto.BatchOverhead+w.rng.IntN(w.batchBytes))
	_, _ = rand.NewChaCha8([32]byte{byte(w.rng.Int())}).Read(p)
	binary.BigEndian.PutUint64(p, uint64(w.rng.Int64N(1000)))
	binary.BigEndian.PutUint32(p[8:], uint32(len(p)-12))
	binary.BigEndian.PutUint32(p[12:], uint32(w.rng.Int32()))
	p[16] = 2
	binary.BigEndian.PutUint16(p[21:], 0)
	binary.BigEndian.PutUint32(p[23:], uint32(records-1))
	binary.BigEndian.PutUint64(p[35:], uint64(w.rng.Int64N(1_000_000)))
	binary.BigEndian.PutUint32(p[57:], uint32(records))
	binary.BigEndian.PutUint32(p[17:], crc32.Checksum(p[21:], objstore.Castagnoli))
	return p
}

// written is one batch in a bundle.
type written struct {
	position uint32
	bytes    []byte
}

// bundle puts a bundle with up to n batches for each of some of the partitions and commits it: some batches are not
// accepted, some after those behind them.
func (w *world) bundle(partitions []id.TopicPartition, n int) id.Bundle {
	w.t.Helper()
	w.bundles++
	name := id.Submission{Session: 1 + id.Session(w.bundles%3), N: uint32(w.bundles)}
	sorted := slices.SortedFunc(slices.Values(partitions), id.TopicPartition.Compare)
	var e bundle.Encoder
	e.Reset(name)
	sections := make(map[id.TopicPartition][]written)
	for _, p := range sorted {
		at := e.Section(p)
		for range w.rng.IntN(n + 1) {
			b := w.batch()
			require.NoError(w.t, e.Batch(b))
			sections[p] = append(sections[p], written{at, b})
			at += uint32(len(b))
		}
	}
	body, _ := e.Finish()
	require.NoError(w.t, w.bucket.Put(w.t.Context(), bundle.Key(prefix, name.Bundle()), body))
	for _, p := range sorted {
		w.commit(p, name.Bundle(), sections[p])
	}
	return name.Bundle()
}

func (w *world) log(p id.TopicPartition) *partitionLog {
	if w.logs[p] == nil {
		w.logs[p] = &partitionLog{}
	}
	return w.logs[p]
}

func (w *world) commit(p id.TopicPartition, b id.Bundle, batches []written) {
	l := w.log(p)
	var late []written
	open := false
	for _, x := range batches {
		switch w.rng.IntN(12) {
		case 0: // a duplicate
			open = false
		case 1:
			late, open = append(late, x), false
		default:
			l.add(b, x, open)
			open = true
		}
	}
	slices.Reverse(late)
	for _, x := range late {
		l.add(b, x, false)
	}
}

// add gives a batch its offsets, in the extent of the batch before if that is open.
func (l *partitionLog) add(b id.Bundle, x written, open bool) {
	placed := kafkaproto.RecordBatch(bytes.Clone(x.bytes))
	placed.SetBaseOffset(l.next)
	placed.SetPartitionLeaderEpoch(kafkaproto.LogEpoch)
	l.batches = append(l.batches, placed)
	if !open {
		l.extents = append(l.extents, extent.Extent{
			Base: l.next, MaxTimestamp: -1, Bundle: b, Position: x.position, Kind: extent.Relative,
		})
	}
	e := &l.extents[len(l.extents)-1]
	e.Last = placed.LastOffset()
	e.Length += uint32(len(placed))
	e.Batches++
	e.MaxTimestamp = max(e.MaxTimestamp, placed.MaxTimestamp())
	l.next = e.Last + 1
}

// marker ends a transaction.
func (w *world) marker(p id.TopicPartition) {
	l := w.log(p)
	m := extent.EndMarker{ProducerID: w.rng.Int64N(100), Epoch: 3, Commit: w.rng.IntN(2) == 0, CoordinatorEpoch: 5}
	timestamp := w.rng.Int64N(1_000_000)
	l.extents = append(l.extents, extent.NewMarker(l.next, timestamp, m))
	end := kafkaproto.Abort
	if m.Commit {
		end = kafkaproto.Commit
	}
	l.batches = append(l.batches, kafkaproto.AppendControlBatch(nil, l.next, timestamp, m.ProducerID, m.Epoch, end, 5))
	l.next++
}

// random makes n bundles over some partitions, with markers between.
func (w *world) random(n, partitions, batches int) *world {
	for range n {
		var some []id.TopicPartition
		for i := range partitions {
			if w.rng.IntN(3) > 0 {
				some = append(some, tp(byte(i/4), int32(i%4)))
			}
		}
		w.bundle(some, batches)
		for _, p := range some {
			if w.rng.IntN(6) == 0 {
				w.marker(p)
			}
		}
	}
	return w
}

// plan is to merge everything.
func (w *world) plan(n id.Session) *job.Plan {
	plan := &job.Plan{ID: n, Kind: job.Compact, Level: 1}
	for p, l := range w.logs {
		if len(l.extents) > 0 {
			plan.Partitions = append(plan.Partitions, job.Partition{ID: p, Extents: slices.Clone(l.extents)})
		}
	}
	slices.SortFunc(plan.Partitions, func(a, b job.Partition) int { return a.ID.Compare(b.ID) })
	return plan
}

func inputsOf(plan *job.Plan) []id.Bundle {
	var all []id.Bundle
	for _, p := range plan.Partitions {
		for _, x := range p.Extents {
			if x.Kind != extent.Marker {
				all = append(all, x.Bundle)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// within gives the oracle's batches of [from, to].
func (l *partitionLog) within(from, to int64) (batches [][]byte) {
	for _, b := range l.batches {
		if base := kafkaproto.RecordBatch(b).BaseOffset(); base >= from && base <= to {
			batches = append(batches, b)
		}
	}
	return batches
}

// lose forgets the batches of an extent that begin at an offset or above it.
func (l *partitionLog) lose(x *extent.Extent, from int64) {
	l.batches = slices.DeleteFunc(l.batches, func(b []byte) bool {
		base := kafkaproto.RecordBatch(b).BaseOffset()
		return base >= max(x.Base, from) && base <= x.Last
	})
}

// requireOutcome checks an outcome against the oracle: what it replaces reads the same.
func (w *world) requireOutcome(b objstore.Bucket, plan *job.Plan, o *job.Outcome) {
	w.t.Helper()
	_, err := job.ParseOutcome(job.AppendOutcome(nil, o))
	require.NoError(w.t, err, "the state machine takes it")
	objects := make(map[id.Bundle][]byte)
	for _, written := range o.Bundles {
		name := id.Submission{Session: plan.ID, N: written.N}.Bundle()
		data, err := objstoretest.Get(context.Background(), b, bundle.Key(prefix, name), 0, -1)
		require.NoError(w.t, err)
		require.Len(w.t, data, int(written.Bytes))
		d, err := bundle.Inspect(bytes.NewReader(data), int64(len(data)))
		require.NoError(w.t, err)
		require.Equal(w.t, name, d.Name.Bundle())
		objects[name] = data
	}
	require.True(w.t, slices.IsSortedFunc(o.Partitions, func(a, b job.Replacement) int {
		return cmp.Or(a.ID.Compare(b.ID), cmp.Compare(a.From, b.From))
	}))
	for i := range o.Partitions {
		w.requireReplacement(&o.Partitions[i], objects)
	}
}

func (w *world) requireReplacement(r *job.Replacement, objects map[id.Bundle][]byte) {
	w.t.Helper()
	var got [][]byte
	for _, x := range r.Extents {
		data := objects[x.Bundle][x.Position : x.Position+x.Length]
		count, timestamp := uint32(0), int64(-1)
		for b, err := range kafkaproto.Batches(data) {
			require.NoError(w.t, err)
			require.GreaterOrEqual(w.t, b.BaseOffset(), x.Base)
			require.LessOrEqual(w.t, b.LastOffset(), x.Last)
			count++
			timestamp = max(timestamp, b.MaxTimestamp())
			got = append(got, b)
		}
		require.Equal(w.t, x.Batches, count)
		require.Equal(w.t, x.MaxTimestamp, timestamp)
	}
	want := w.log(r.ID).within(r.From, r.To)
	if len(want) == 0 {
		for _, b := range got {
			require.Zero(w.t, kafkaproto.RecordBatch(b).RecordCount(), "all of [%d, %d] is lost", r.From, r.To)
		}
		return
	}
	require.Len(w.t, got, len(want), "%s [%d, %d]", r.ID, r.From, r.To)
	for i := range want {
		require.True(w.t, bytes.Equal(want[i], got[i]), "batch %d of %s", i, r.ID)
	}
}

// inOrder leaves out extents that lie before an earlier one in their bundle: each costs a GET of its own.
func inOrder(exts []extent.Extent) []extent.Extent {
	seen := map[id.Bundle]uint32{}
	var kept []extent.Extent
	for _, x := range exts {
		if x.Position >= seen[x.Bundle] {
			kept = append(kept, x)
			seen[x.Bundle] = x.Position
		}
	}
	return kept
}
