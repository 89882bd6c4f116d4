package job_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	planner "github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// fill commits bundles for jobs of the first level and has those run. Every bundle has bytes of each partition.
func (r *replica) fill(session id.Session, jobs, bytes int, partitions ...id.TopicPartition) {
	r.t.Helper()
	for range jobs {
		for range 4 {
			r.commit(session, bytes, partitions...)
		}
		p := r.next()
		require.EqualValues(r.t, 1, p.Level)
		r.finish(p)
	}
}

func TestSecond_AverageBytesOfARange(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 2)
		r := w.own(a)
		defer r.stop()
		r.fill(a, 2, 100, tp(topic, 0), tp(topic, 1))
		require.Empty(t, r.rounds(2), "800 of each")
		r.fill(a, 1, 100, tp(topic, 0), tp(topic, 1))
		p := r.next()
		require.Equal(t, job.Compact, p.Kind)
		require.EqualValues(t, 2, p.Level)
		require.Len(t, p.Partitions, 2)
		require.Len(t, p.Partitions[1].Extents, 3)
		open := w.openJobs()
		require.Len(t, open, 1)
		require.Len(t, open[0].Inputs, 3)
		require.Equal(t, tp(topic, 0), open[0].First)
		require.Equal(t, tp(topic, 1), open[0].Last)
		r.finish(p)
		require.Equal(t, [3]int{0, 0, 1}, w.levels())
		require.Len(t, w.extents(tp(topic, 1)), 1)
		require.Empty(t, r.rounds(3), "level 2 is final")
	})
}

func TestSecond_ExtentsOrAge(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 1)
		r := w.own(a)
		defer r.stop()
		r.fill(a, 4, 70, tp(topic, 0))
		p := r.next()
		require.EqualValues(t, 2, p.Level, "four extents")
		r.finish(p)
		r.fill(a, 1, 70, tp(topic, 0))
		w.pass(2 * time.Hour)
		require.Empty(t, r.plans(), "one alone, however old")
		r.fill(a, 1, 70, tp(topic, 0))
		p = r.next()
		require.EqualValues(t, 2, p.Level, "two, the older of which is old")
		require.Len(t, p.Partitions[0].Extents, 2)
	}, func(s *planner.Settings) { s.Second.Bytes = 1 << 20 })
}

// What is long is left where it is, if little else is in its object.
func TestSecond_LongExtentsAreFinal(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 2)
		r := w.own(a)
		defer r.stop()
		for range 4 {
			r.fill(a, 1, 1000, tp(topic, 0))
		}
		require.Empty(t, r.rounds(3), "extents of 2000 bytes")
		require.Equal(t, [3]int{0, 4, 0}, w.levels())
		require.Len(t, w.extents(tp(topic, 0)), 8)
	})
}

// Long extents that share their object with as much that is not long are compacted with it: they would keep the whole
// object alive.
func TestSecond_LongExtentsKeepNoObjectAlive(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 5)
		r := w.own(a)
		defer r.stop()
		var short []id.TopicPartition
		for p := range int32(4) {
			short = append(short, tp(topic, p+1))
		}
		var last []*job.Plan
		for range 4 {
			for range 2 {
				w.commit(a, 1000, tp(topic, 0))
				w.commit(a, 250, short...)
			}
			last = r.run()
		}
		require.Equal(t, [3]int{0, 0, 2}, w.levels())
		require.EqualValues(t, 2, last[len(last)-1].Level)
		require.Len(t, last[len(last)-1].Partitions, 5)
	})
}

// Ranges are cut by a job's bytes, and jobs of one round do not overlap.
func TestSecond_RangesAreCut(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a, b := w.agent(), w.agent()
		topic := w.topic(1, 4)
		all := []id.TopicPartition{tp(topic, 0), tp(topic, 1), tp(topic, 2), tp(topic, 3)}
		r := w.own(a, b)
		defer r.stop()
		r.fill(a, 3, 100, all...)
		plans := r.rounds(1)
		require.Len(t, plans, 2)
		require.Len(t, plans[0].Partitions, 2)
		require.Len(t, plans[1].Partitions, 2)
		r.finish(plans[1])
		r.finish(plans[0])
		require.Equal(t, [3]int{0, 0, 2}, w.levels())
		for _, p := range all {
			require.Len(t, w.extents(p), 1)
		}
	}, func(s *planner.Settings) { s.Second.JobBytes = 2400 })
}

// Level 2 takes what is done of level 1 while more of it is under way.
func TestSecond_BesideFirst(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a, b := w.agent(), w.agent()
		topic := w.topic(1, 1)
		r := w.own(a, b)
		defer r.stop()
		r.fill(a, 2, 100, tp(topic, 0))
		mark := func() {
			w.must(&metadata.WriteMarkers{ProducerID: 7, Partitions: []id.TopicPartition{tp(topic, 0)}})
		}
		mark()
		for range 4 {
			w.commit(a, 100, tp(topic, 0))
		}
		first := r.next()
		require.Len(t, first.Partitions[0].Extents, 5)
		r.speak(first)
		w.must(&metadata.TrimPartitions{Trims: []metadata.Trim{{Partition: tp(topic, 0), Offset: 5}}})
		r.finish(first)
		for range 4 {
			w.commit(a, 100, tp(topic, 0))
		}
		plans := r.rounds(1)
		require.Len(t, plans, 2)
		for i := len(plans) - 1; i >= 0; i-- {
			r.finish(plans[i])
		}
		require.Equal(t, [3]int{0, 1, 1}, w.levels())
		exts := w.extents(tp(topic, 0))
		require.Len(t, exts, 2)
		require.Equal(t, extent.Absolute, exts[0].Kind)
	})
}

func TestSecond_RoundsStartWhereAllIsFinal(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 1)
		r := w.own(a)
		for range 5 {
			r.fill(a, 3, 100, tp(topic, 0))
			r.finish(r.next())
		}
		r.stop()
		require.Equal(t, [3]int{0, 0, 5}, w.levels())
		// A new owner walks over all of it, and goes on in the same way.
		r = w.own(a)
		defer r.stop()
		r.fill(a, 3, 100, tp(topic, 0))
		p := r.next()
		require.EqualValues(t, 600, p.Partitions[0].Extents[0].Base)
		require.EqualValues(t, 719, p.Partitions[0].Extents[2].Last)
	})
}

// patient never has the second level due by what there is.
func patient(s *planner.Settings) {
	s.First.Bundles = 2
	s.Second.Bytes, s.Second.Extents, s.Second.JobBytes = 1<<30, 1<<20, 1<<40
}

// Half of the bound makes the second level due, unless most extents are final: the more of those there are, the more of
// the others are merged at a time.
func TestSecond_NearTheBoundOfExtents(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 2)
		// merge has jobs run until one of the second level has, and gives the extents that it took of each partition.
		merge := func(r *replica) (extents int) {
			for i := 0; extents == 0; i++ {
				require.Less(t, i, 20)
				w.commit(a, 70, tp(topic, 0), tp(topic, 1))
				w.commit(a, 70, tp(topic, 0), tp(topic, 1))
				for _, p := range r.run() {
					if p.Level == 2 {
						require.Len(t, p.Partitions, 2)
						require.Len(t, p.Partitions[1].Extents, len(p.Partitions[0].Extents))
						extents = len(p.Partitions[0].Extents)
					}
				}
			}
			return extents
		}
		w.bound = 40
		r := w.own(a)
		require.Equal(t, 8, merge(r), "16 extents, and 4 that agents have just written")
		r.stop()
		w.bound = 2 // long passed
		r = w.own(a)
		defer r.stop()
		for _, extents := range []int{4, 4, 4, 4, 5, 6} {
			require.Equal(t, extents, merge(r))
		}
	}, patient)
}

// A range in more bundles than a job takes: the job takes the oldest of them, of each partition the same time.
func TestSecond_AsManyInputsAsAJobTakes(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 3)
		r := w.own(a)
		defer r.stop()
		var second *job.Plan
		for i := 0; second == nil; i++ {
			require.Less(t, i, 300)
			for range 2 {
				w.commit(a, 70, tp(topic, int32(i%3)))
			}
			for _, p := range r.await() {
				if p.Level == 2 {
					require.GreaterOrEqual(t, i, 255)
					second = p
					continue
				}
				r.finish(p)
			}
		}
		inputs := w.openJobs()[0].Inputs
		require.Len(t, inputs, 256)
		require.Len(t, second.Partitions, 3)
		for _, p := range second.Partitions {
			require.InDelta(t, 256./3, len(p.Extents), 1)
		}
	}, func(s *planner.Settings) { patient(s); s.Second.Extents = 90 })
}

// The bundle of a job of the first level that took long is the newest, and what it has comes first: it keeps nothing behind
// it from the second level, however many bundles that lies in.
func TestSecond_BehindALateJob(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a, b := w.agent(), w.agent()
		partition := tp(w.topic(1, 1), 0)
		r := w.own(a, b)
		defer r.stop()
		// next commits what the next job is for before the one before ends, so that the round which follows at once finds it.
		next := func(before *job.Plan) *job.Plan {
			w.commit(a, 70, partition)
			w.commit(a, 70, partition)
			if before != nil {
				r.finish(before)
			}
			p := r.await()[0]
			require.EqualValues(t, 1, p.Level)
			return p
		}
		late := next(nil)
		p := next(nil)
		for range 259 {
			p = next(p)
			r.speak(late)
		}
		r.finish(p)
		r.finish(late)
		second := r.await()[0]
		require.EqualValues(t, 2, second.Level)
		taken := bundles(second, partition)
		require.Len(t, taken, 256)
		require.Equal(t, id.Submission{Session: late.ID, N: 1}.Bundle(), taken[0])
	}, func(s *planner.Settings) { patient(s); s.Second.Extents = 261 })
}

// A busy partition is compacted though the other partitions of its range have next to nothing.
func TestSecond_ABusyPartitionAmongIdleOnes(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		const idle = 60
		topic := w.topic(1, idle+1)
		r := w.own(a)
		defer r.stop()
		var all []id.TopicPartition
		for p := range int32(idle + 1) {
			all = append(all, tp(topic, p))
		}
		seconds := 0
		run := func(partitions ...id.TopicPartition) {
			for range 4 {
				w.commit(a, 70, partitions...)
			}
			for _, p := range r.run() {
				if p.Level == 2 {
					seconds++
				}
			}
		}
		run(all...) // one extent is left of each
		for range 40 {
			run(tp(topic, 30))
		}
		w.pass(2 * time.Hour) // Age is one
		run(tp(topic, 30))
		t.Logf("extents of the busy partition: %d, jobs of the second level: %d", len(w.extents(tp(topic, 30))), seconds)
		require.Positive(t, seconds, "40 extents of one partition; 4 are due")
	}, func(s *planner.Settings) { s.Second.Bytes = 1 << 20; s.Second.JobBytes = 1 << 30 })
}
