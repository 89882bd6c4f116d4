package job_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	planner "github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

const mib = 1 << 20

// reclaiming lets bundles of some MiB be reclaimed, and the second level wait for hours.
func reclaiming(s *planner.Settings) {
	s.First = planner.FirstLevel{Bundles: 4, Bytes: 1 << 30, Age: time.Minute}
	s.Second = planner.SecondLevel{Bytes: 64 * mib, Extents: 24, Age: 6 * time.Hour, JobBytes: 4 << 30, FinalBytes: 64 * mib}
	s.DeadBytes = 16 * mib
}

// bundle makes a live bundle of that level with so many bytes of each partition, as a job would.
func (w *world) bundle(session id.Session, level uint8, bytes int, partitions ...id.TopicPartition) id.Bundle {
	w.t.Helper()
	slices.SortFunc(partitions, id.TopicPartition.Compare)
	w.commit(session, bytes, partitions...)
	return w.rewritten(session, level, partitions...)
}

// rewritten has a job of that level rewrite the last extent of each partition, which one bundle has.
func (w *world) rewritten(session id.Session, level uint8, partitions ...id.TopicPartition) id.Bundle {
	w.t.Helper()
	p := &job.Plan{Kind: job.Compact, Level: level}
	s := w.frozen()
	for _, q := range partitions {
		marks, _ := s.Watermarks(q)
		exts, _ := s.Extents(q, marks.HighWatermark-1, 0, 0)
		p.Partitions = append(p.Partitions, job.Partition{ID: q, Extents: exts})
	}
	p.ID = w.must(&metadata.StartJob{
		Kind: job.Compact, Level: level, Runner: session, First: partitions[0], Last: partitions[len(partitions)-1], Inputs: inputs(p),
	}).Value.(id.Session)
	w.must(&metadata.CompleteJob{Job: p.ID, Outcome: job.AppendOutcome(nil, work(p, 1<<31)), Last: true})
	return id.Submission{Session: p.ID, N: 1}.Bundle()
}

// trim drops all records of partitions, but the last keep.
func (w *world) trim(keep int64, partitions ...id.TopicPartition) {
	w.t.Helper()
	c := &metadata.TrimPartitions{}
	s := w.frozen()
	for _, q := range partitions {
		marks, _ := s.Watermarks(q)
		c.Trims = append(c.Trims, metadata.Trim{Partition: q, Offset: max(marks.HighWatermark-keep, marks.LogStart)})
	}
	w.must(c)
	for range 20 {
		w.must(&metadata.Tick{})
	}
}

// merge does a job as finish does, but makes one extent of each run.
func (r *replica) merge(p *job.Plan) {
	r.t.Helper()
	require.NoError(r.t, r.Complete(r.t.Context(), p.ID, job.AppendOutcome(nil, work(p, 1<<31)), true))
}

// stored returns the bytes of live bundles' objects and of live extents.
func (w *world) stored() (objects, live int64) {
	for _, b := range w.frozen().Bundles() {
		objects += int64(b.Bytes)
		live += int64(b.LiveBytes)
	}
	return objects, live
}

func (w *world) live(b id.Bundle) bool {
	_, extents, _, _ := w.frozen().Bundle(b)
	return extents > 0
}

// inputs returns the bundles that a plan rewrites.
func inputs(p *job.Plan) []id.Bundle {
	all := map[id.Bundle]bool{}
	for i := range p.Partitions {
		for _, x := range p.Partitions[i].Extents {
			all[x.Bundle] = true
		}
	}
	return slices.Sorted(func(yield func(id.Bundle) bool) {
		for b := range all {
			if !yield(b) {
				return
			}
		}
	})
}

func parts(topic id.Topic, n int32) (all []id.TopicPartition) {
	for p := range n {
		all = append(all, tp(topic, p))
	}
	return all
}

// Topics with an hour of retention share bundles with one that is kept: what is stored follows what is live.
func TestReclaim_MixedRetention(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		short, kept := parts(w.topic(1, 7), 7), tp(w.topic(2, 1), 0)
		r := w.own(a)
		defer r.stop()
		var written, worst float64
		reclaimed := 0
		for hour := range 36 {
			for range 6 { // of ten minutes
				for range 4 {
					w.commit(a, 10*mib, append(slices.Clone(short), kept)...)
				}
				until := time.Now().Add(10 * time.Minute)
				w.trim(240, short...) // the last hour
				for time.Now().Before(until) {
					for _, p := range r.rounds(1) {
						if p.Level == 2 && len(inputs(p)) > 0 && w.levelOf(inputs(p)[0]) == 2 {
							reclaimed++
							for i := range p.Partitions {
								for _, x := range p.Partitions[i].Extents {
									written += float64(x.Length)
								}
							}
						}
						r.merge(p)
					}
				}
				if hour >= 3 {
					objects, live := w.stored()
					worst = max(worst, float64(objects)/float64(live))
				}
			}
		}
		objects, live := w.stored()
		t.Logf("objects %d MiB, live %d MiB, at worst %.2f times; %d jobs reclaimed and wrote %.0f MiB",
			objects/mib, live/mib, worst, reclaimed, written/mib)
		require.Positive(t, reclaimed)
		require.Less(t, worst, 2.1)
		ingested := float64(36 * 6 * 4 * 8 * 10 * mib)
		require.LessOrEqual(t, written, ingested, "each byte written frees one")
		w.extents(kept)
	}, reclaiming)
}

func (w *world) levelOf(b id.Bundle) uint8 {
	level, _ := w.frozen().BundleLevel(b)
	return level
}

func TestReclaim_OfLevel2(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		short, kept := tp(w.topic(1, 1), 0), tp(w.topic(2, 1), 0)
		first := w.bundle(a, 2, 20*mib, short, kept)
		second := w.bundle(a, 2, 30*mib, short, kept)
		r := w.own(a)
		defer r.stop()
		require.Empty(t, r.rounds(10), "all is live")
		require.Less(t, w.gauge("freshet_jobs_backlog_dead_bytes"), 1000.)
		w.trim(0, short)
		p := r.await()[0]
		require.Equal(t, job.Compact, p.Kind)
		require.EqualValues(t, 2, p.Level)
		require.Equal(t, []id.Bundle{first, second}, bundles(p, kept))
		require.Len(t, p.Partitions, 1)
		require.EqualValues(t, 2, w.gauge("freshet_jobs_backlog_half_dead_bundles"))
		require.InDelta(t, 50*mib, w.gauge("freshet_jobs_backlog_dead_bytes"), 1000)
		r.merge(p)
		require.False(t, w.live(first))
		require.False(t, w.live(second))
		require.Len(t, w.extents(kept), 1, "adjacent extents become one")
		objects, live := w.stored()
		require.EqualValues(t, 50*mib, live)
		require.InDelta(t, live, objects, 1000)
		require.Empty(t, r.rounds(100), "level 2 is final")
		require.Zero(t, w.gauge("freshet_jobs_backlog_half_dead_bundles"))
	}, reclaiming)
}

func TestReclaim_WhatIsNotWorthIt(t *testing.T) {
	for name, test := range map[string]struct {
		short, kept int32 // partitions
		bytes       int   // of each
		due         bool
	}{
		"half, and the minimum":             {short: 2, kept: 2, bytes: 8 * mib, due: true},
		"less than the minimum":             {short: 2, kept: 1, bytes: 8*mib - 1000},
		"less than half":                    {short: 3, kept: 4, bytes: 10 * mib},
		"too little for so many extents":    {short: 1, kept: 17_000, bytes: 1 << 10},
		"just enough for so many extents":   {short: 17_100, kept: 17_000, bytes: 1 << 10, due: true},
		"one byte less for so many of them": {short: 17_000, kept: 17_000, bytes: 1<<10 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				t := w.t
				a := w.agent()
				short, kept := parts(w.topic(1, test.short), test.short), parts(w.topic(2, test.kept), test.kept)
				b := w.bundle(a, 2, test.bytes, append(slices.Clone(short), kept...)...)
				w.trim(0, short...)
				r := w.own(a)
				defer r.stop()
				if !test.due {
					require.Empty(t, r.rounds(20))
					require.Zero(t, w.gauge("freshet_jobs_backlog_half_dead_bundles"))
					return
				}
				p := r.await()
				require.Len(t, p, 1)
				require.Equal(t, []id.Bundle{b}, inputs(p[0]))
			}, reclaiming)
		})
	}
}

// Bundles of level 1 are the second level's, but for those that it leaves where they are.
func TestReclaim_OfLevel1(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		short, kept, little := tp(w.topic(1, 1), 0), tp(w.topic(2, 1), 0), tp(w.topic(3, 1), 0)
		long := w.bundle(a, 1, 100*mib, short, kept)
		other := w.bundle(a, 1, 20*mib, short, little)
		r := w.own(a)
		defer r.stop()
		require.Empty(t, r.rounds(2), "the first judges what stays")
		w.trim(0, short)
		p := r.await()[0]
		require.Equal(t, []id.Bundle{long}, inputs(p))
		r.merge(p)
		require.False(t, w.live(long))
		// The other one has an extent alone, which the second level never takes.
		w.pass(11 * time.Hour)
		require.Empty(t, r.plans())
		w.pass(2 * time.Hour)
		p = r.plans()[0]
		require.Equal(t, []id.Bundle{other}, inputs(p))
		require.EqualValues(t, 2, p.Level)
	}, reclaiming)
}

// Extents that something else lies between are not made one, nor put beside each other.
func TestReclaim_RunsStayApart(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		short, kept := tp(w.topic(1, 1), 0), tp(w.topic(2, 1), 0)
		w.bundle(a, 2, 20*mib, short, kept)
		between := w.bundle(a, 2, 20*mib, kept)
		w.bundle(a, 2, 20*mib, short, kept)
		w.must(&metadata.WriteMarkers{ProducerID: 7, Partitions: []id.TopicPartition{kept}})
		w.bundle(a, 2, 20*mib, short, kept)
		w.trim(0, short)
		r := w.own(a)
		defer r.stop()
		p := r.await()[0]
		require.Len(t, p.Partitions[0].Extents, 3)
		r.merge(p)
		exts := w.extents(kept)
		require.Len(t, exts, 5)
		require.Equal(t, between, exts[1].Bundle)
		require.Equal(t, extent.Marker, exts[3].Kind)
	}, reclaiming)
}

// What an open job cleans is left alone, and nothing is cleaned that an open job rewrites. Other partitions of its range are cleaned.
func TestReclaim_BesideCleaning(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a, b, c := w.agent(), w.agent(), w.agent()
		short, kept := parts(w.topic(1, 2), 2), tp(w.topic(4, 1), 0)
		compacted := w.topic(2, 2, "cleanup.policy", "compact")
		bundle := w.bundle(a, 2, 20*mib, short[0], short[1], tp(compacted, 0), kept)
		r := w.own(a, b, c)
		defer r.stop()
		clean := r.await()[0]
		require.Equal(t, job.Clean, clean.Kind)
		w.trim(0, short...)
		reclaim := r.await()[0]
		require.Len(t, reclaim.Partitions, 1)
		require.Equal(t, kept, reclaim.Partitions[0].ID)
		r.finish(reclaim)
		require.True(t, w.live(bundle), "the cleaning has the rest")
		r.finish(clean)
		require.False(t, w.live(bundle))

		// The other way round.
		w.configure(compacted, "min.compaction.lag.ms", "600000")
		bundle = w.bundle(a, 2, 20*mib, short[0], short[1], tp(compacted, 1), kept)
		w.trim(0, short...)
		reclaim = r.await()[0]
		require.Equal(t, []id.Bundle{bundle}, inputs(reclaim))
		require.Len(t, reclaim.Partitions, 2)
		w.bundle(a, 2, 20*mib, tp(compacted, 0)) // dirty again
		w.bundle(a, 2, 20*mib, tp(compacted, 0))
		var cleaned []id.TopicPartition
		for range 60 {
			r.speak(reclaim)
			require.True(t, r.Progress(r.runnerOf(reclaim.ID), reclaim.ID, 10*mib))
			for _, p := range r.rounds(1) {
				require.Equal(t, job.Clean, p.Kind)
				cleaned = append(cleaned, p.Partitions[0].ID)
				r.finish(p)
			}
		}
		require.Equal(t, []id.TopicPartition{tp(compacted, 0)}, cleaned, "though it lies in the range of the open job")
		r.finish(reclaim)
		require.Equal(t, tp(compacted, 1), r.await()[0].Partitions[0].ID)
	}, reclaiming)
}

// A job that failed waits, and comes again smaller, until what makes it fail is alone. The rest goes on.
func TestReclaim_ComesAgainSmaller(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		short, kept := tp(w.topic(1, 1), 0), tp(w.topic(2, 1), 0)
		var all []id.Bundle
		for range 8 {
			all = append(all, w.bundle(a, 2, 16*mib, short, kept))
		}
		w.trim(0, short)
		r := w.own(a)
		defer r.stop()
		poison := all[3]
		var sizes []int
		var at []time.Time
		for began := time.Now(); len(sizes) == 0 || sizes[len(sizes)-1] > 1; {
			require.Less(t, time.Since(began), 24*time.Hour)
			for _, p := range r.rounds(1) {
				if slices.Contains(inputs(p), poison) {
					sizes, at = append(sizes, len(inputs(p))), append(at, time.Now())
					require.NoError(t, r.Abort(t.Context(), p.ID, "out of memory", job.Unreadable{}))
					continue
				}
				r.merge(p)
			}
		}
		t.Logf("inputs of the jobs that failed: %d", sizes)
		require.Equal(t, 8, sizes[0])
		require.True(t, slices.IsSortedFunc(sizes, func(a, b int) int { return b - a }))
		require.GreaterOrEqual(t, at[1].Sub(at[0]), 10*time.Minute)
		for _, p := range r.run() {
			require.NotContains(t, inputs(p), poison)
		}
		w.pass(2 * time.Hour)
		for _, p := range r.plans() {
			require.Equal(t, []id.Bundle{poison}, inputs(p))
		}
		for _, b := range all {
			require.Equal(t, b == poison, w.live(b))
		}
	}, reclaiming, func(s *planner.Settings) { s.Second.JobBytes = 128 * mib })
}

func TestReclaim_UnreadableIsLeftOut(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		short, kept := tp(w.topic(1, 1), 0), tp(w.topic(2, 1), 0)
		var all []id.Bundle
		for range 3 {
			all = append(all, w.bundle(a, 2, 16*mib, short, kept))
		}
		w.trim(0, short)
		r := w.own(a)
		defer r.stop()
		p := r.await()[0]
		for range 2 { // the only runner is believed the second time
			require.Equal(t, all, inputs(p))
			require.NoError(t, r.Abort(t.Context(), p.ID, "checksum", job.Unreadable{Bundles: []id.Bundle{all[1]}}))
			w.pass(9 * time.Minute) // a walk leaves them out for 10
			p = r.await()[0]
		}
		require.Equal(t, []id.Bundle{all[0], all[2]}, inputs(p))
		w.extents(kept)
	}, reclaiming)
}

// A rewrite of what lies beside extents of a deleted topic would not free the object while the topic can be taken back.
func TestReclaim_WaitsForDeletedTopics(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		short, gone, kept := parts(w.topic(1, 2), 2), w.topic(2, 1), tp(w.topic(3, 1), 0)
		b := w.bundle(a, 2, 20*mib, short[0], short[1], tp(gone, 0), kept)
		other := w.bundle(a, 2, 20*mib, short[0], short[1], kept)
		w.trim(0, short...)
		w.must(&metadata.DeleteTopic{ID: gone, KeepMs: 1e8})
		r := w.own(a)
		defer r.stop()
		p := r.await()[0]
		require.Equal(t, []id.Bundle{other}, inputs(p))
		r.merge(p)
		w.pass(2 * time.Hour)
		require.Empty(t, r.plans())
		for d := range w.frozen().DeletedTopics() {
			w.must(&metadata.PurgeTopics{Topics: []metadata.PurgedTopic{{ID: gone, Index: d.Index}}})
		}
		w.pass(12 * time.Minute)
		require.Equal(t, []id.Bundle{b}, inputs(r.plans()[0]))
	}, reclaiming)
}

// Bundles of an open job may get more extents.
func TestReclaim_NotWhatIsBeingWritten(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		short, kept := tp(w.topic(1, 1), 0), tp(w.topic(2, 1), 0)
		r := w.own(a)
		defer r.stop()
		w.bundle(a, 1, 100*mib, short, kept)
		w.bundle(a, 1, 100*mib, short)
		p := r.await()[0]
		require.EqualValues(t, 2, p.Level)
		require.NoError(t, r.Complete(t.Context(), p.ID, job.AppendOutcome(nil, work(p, 1<<31)), false))
		w.trim(0, short)
		for range 10 {
			require.True(t, r.Progress(a, p.ID, 1))
			require.Empty(t, r.rounds(1))
		}
		r.merge(p)
		require.Len(t, r.await(), 1)
	}, reclaiming, func(s *planner.Settings) { s.Second.FinalBytes = 1 << 30 })
}

// Jobs of one walk, and of the next, have no bundle in common and keep to their bounds. Those with the most dead bytes come first.
func TestReclaim_Many(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		var agents []id.Session
		for range 6 {
			agents = append(agents, w.agent())
		}
		short, kept := tp(w.topic(1, 1), 0), tp(w.topic(2, 1), 0)
		dead := map[id.Bundle]int{}
		for i := range 1400 {
			bytes := mib + i
			dead[w.bundle(agents[0], 2, bytes, short, kept)] = bytes
		}
		w.trim(0, short)
		r := w.own(agents...)
		defer r.stop()
		var least []int
		open := map[id.Bundle]bool{}
		for len(open) < 1400 {
			plans := r.await()
			require.LessOrEqual(t, len(plans), 4, "1024 candidates")
			for _, p := range plans {
				in := inputs(p)
				require.LessOrEqual(t, len(in), 256)
				lowest := 1 << 40
				for _, b := range in {
					require.False(t, open[b])
					open[b] = true
					lowest = min(lowest, dead[b])
				}
				least = append(least, lowest)
			}
			for _, p := range plans {
				r.merge(p)
			}
		}
		require.Len(t, least, 6)
		require.True(t, slices.IsSortedFunc(least, func(a, b int) int { return b - a }))
		require.Equal(t, 1, w.levels()[2]-5)
	}, reclaiming, func(s *planner.Settings) { s.DeadBytes = mib })
}

// Live bytes of a job are bounded by JobBytes, extents by what a plan holds.
func TestReclaim_BoundsOfJobs(t *testing.T) {
	t.Run("bytes", func(t *testing.T) {
		in(t, func(w *world) {
			a := w.agent()
			short, kept := tp(w.topic(1, 1), 0), tp(w.topic(2, 1), 0)
			for range 5 {
				w.bundle(a, 2, 20*mib, short, kept)
			}
			w.trim(0, short)
			r := w.own(a)
			defer r.stop()
			for _, n := range []int{2, 2, 1} {
				p := r.await()[0]
				require.Len(w.t, inputs(p), n)
				r.merge(p)
			}
		}, reclaiming, func(s *planner.Settings) { s.Second.JobBytes = 50 * mib; s.Second.Bytes = 50 * mib })
	})
	t.Run("extents", func(t *testing.T) {
		in(t, func(w *world) {
			t := w.t
			a, b := w.agent(), w.agent()
			const n = 120_000
			short, kept := tp(w.topic(1, 1), 0), parts(w.topic(2, n), n)
			var all []id.Bundle
			for range 3 {
				w.mixed(a, short, n<<10, kept)
				all = append(all, w.rewritten(a, 2, append([]id.TopicPartition{short}, kept...)...))
			}
			w.trim(0, short)
			r := w.own(a, b)
			defer r.stop()
			p := r.await()
			require.Len(t, p, 1, "of the extents that a round plans")
			require.Equal(t, all[:2], inputs(p[0]))
			require.Equal(t, all[2:], inputs(r.await()[0]))
		}, reclaiming)
	})
}

// mixed commits a bundle with so many bytes of the first partition, and 100 bytes of each of the others.
func (w *world) mixed(session id.Session, first id.TopicPartition, bytes int, others []id.TopicPartition) {
	w.t.Helper()
	w.n[session]++
	var b commit.Builder
	b.Reset(commit.Header{Submission: id.Submission{Session: session, N: w.n[session]}, Bytes: uint32(16 + bytes + 100*len(others))})
	batch := commit.Batch{Records: 10, MaxTimestamp: time.Now().UnixMilli(), ProducerID: commit.NoProducer}
	b.Section(commit.Section{Partition: first, Position: 16})
	batch.Bytes = int32(bytes)
	b.Batch(batch)
	batch.Bytes = 100
	for i, p := range others {
		b.Section(commit.Section{Partition: p, Position: uint32(16 + bytes + 100*i)})
		b.Batch(batch)
	}
	w.must(&metadata.CommitBundle{Encoded: b.AppendTo(nil)})
}

// Open jobs go on under a new owner, and nothing is planned twice.
func TestReclaim_OwnerChange(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a, b := w.agent(), w.agent()
		short, kept := tp(w.topic(1, 1), 0), tp(w.topic(2, 1), 0)
		one, two := w.bundle(a, 2, 20*mib, short, kept), w.bundle(a, 2, 20*mib, short, kept)
		w.trim(0, short)
		first := w.own(a)
		p := first.await()[0]
		require.Equal(t, []id.Bundle{one, two}, inputs(p))
		three := w.bundle(a, 2, 20*mib, short, kept)
		w.trim(0, short)
		second := w.own(a, b)
		defer second.stop()
		first.stop()
		q := second.await()[0]
		require.Equal(t, []id.Bundle{three}, inputs(q))
		require.True(t, second.Progress(second.runnerOf(p.ID), p.ID, 1))
		second.merge(q)
		second.merge(p)
		for _, b := range []id.Bundle{one, two, three} {
			require.False(t, w.live(b))
		}
		require.Empty(t, w.openJobs())
		w.extents(kept)

		// One that fails under its new owner comes again.
		one = w.bundle(a, 2, 20*mib, short, kept)
		w.trim(0, short)
		p = second.await()[0]
		require.Equal(t, []id.Bundle{one}, inputs(p))
		third := w.own(a, b)
		defer third.stop()
		require.Empty(t, third.rounds(1))
		require.NoError(t, third.Abort(t.Context(), p.ID, "out of memory", job.Unreadable{}))
		require.Equal(t, []id.Bundle{one}, inputs(third.await()[0]))
	}, reclaiming)
}

// Failures keep the second level from nothing.
func TestReclaim_FailuresAreNotTheSecondLevels(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a, b := w.agent(), w.agent()
		short, kept := tp(w.topic(1, 1), 0), tp(w.topic(2, 1), 0)
		poison := w.bundle(a, 2, 20*mib, short, kept)
		w.trim(0, short)
		r := w.own(a, b)
		defer r.stop()
		began := time.Now()
		for failures := 0; failures < 6; {
			require.Less(t, time.Since(began), 24*time.Hour)
			for _, p := range r.rounds(1) {
				require.Equal(t, []id.Bundle{poison}, inputs(p))
				require.NoError(t, r.Abort(t.Context(), p.ID, "out of memory", job.Unreadable{}))
				failures++
			}
		}
		w.pass(time.Minute) // the runners have paused
		require.Empty(t, r.plans())
		one, two := w.bundle(a, 1, 40*mib, kept), w.bundle(a, 1, 40*mib, kept)
		require.Equal(t, []id.Bundle{one, two}, inputs(r.next()), "in the range of what failed")
	}, reclaiming)
}

// Where extents are to become fewer, the second level comes first, and reclaiming gets what it leaves of runners.
func TestReclaim_NearTheBoundOfExtents(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		short, kept, busy := parts(w.topic(1, 2), 2), tp(w.topic(2, 1), 0), parts(w.topic(3, 3), 3)
		reclaim := w.bundle(a, 2, 20*mib, short[0], short[1], kept)
		w.bound = 2
		r := w.own(a)
		defer r.stop()
		more := func() {
			for range 16 {
				w.bundle(a, 1, mib, busy...)
			}
		}
		more()
		for i := range 4 {
			p := r.await()[0]
			require.NotContains(t, inputs(p), reclaim)
			if i < 3 { // before the runner is free again, so that a round knows what is left
				more()
				w.trim(0, short...)
				r.speak(p)
				require.Empty(t, r.rounds(1))
			}
			r.merge(p)
		}
		require.Equal(t, []id.Bundle{reclaim}, inputs(r.await()[0]), "nothing else is left to be done")
	}, reclaiming)
}

// One runner and work of every class: none starves.
func TestReclaim_NobodyStarves(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		short, kept := tp(w.topic(1, 1), 0), tp(w.topic(2, 1), 0)
		dirty := parts(w.topic(3, 4, "cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0"), 4)
		r := w.own(a)
		defer r.stop()
		count := map[string]int{}
		for range 60 {
			for range 4 {
				w.commit(a, 100, append(slices.Clone(dirty), kept)...)
			}
			w.bundle(a, 1, 40*mib, kept)
			w.bundle(a, 1, 40*mib, kept)
			w.bundle(a, 2, 20*mib, short, kept)
			w.trim(0, short)
			for _, p := range r.rounds(1) {
				kind := p.Kind.String() + string('0'+rune(p.Level))
				if p.Kind == job.Compact && w.levelOf(inputs(p)[0]) == 2 {
					kind = "reclaim"
				}
				count[kind]++
				r.merge(p)
			}
		}
		for _, kind := range []string{"compact1", "compact2", "clean2"} {
			require.GreaterOrEqual(t, count[kind], 12, "%v", count)
		}
		require.GreaterOrEqual(t, count["reclaim"], 8, "%v: one a minute at most", count)
	}, reclaiming)
}

func TestReclaim_Off(t *testing.T) {
	in(t, func(w *world) {
		a := w.agent()
		short, kept := tp(w.topic(1, 1), 0), tp(w.topic(2, 1), 0)
		w.bundle(a, 2, 20*mib, short, kept)
		w.trim(0, short)
		r := w.own(a)
		defer r.stop()
		w.pass(time.Hour)
		require.Empty(w.t, r.plans())
	}, reclaiming, func(s *planner.Settings) { s.Off = true })
}
