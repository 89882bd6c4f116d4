package job_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	planner "github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// in runs a test in a bubble, with a world that small settings apply to.
func in(t *testing.T, fn func(w *world), adjust ...func(*planner.Settings)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fn(newWorld(t, append([]func(*planner.Settings){small}, adjust...)...))
	})
}

func TestFirst_TakesTheOldestByCommit(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a, b := w.agent(), w.agent()
		topic := w.topic(1, 3)
		// Names do not tell the order: the younger session commits first.
		var order []id.Bundle
		for _, session := range []id.Session{b, a, b, a, b} {
			order = append(order, w.commit(session, 100, tp(topic, 0), tp(topic, 1)))
			time.Sleep(time.Millisecond) // of one millisecond the lower name is older
		}
		r := w.own(a)
		defer r.stop()
		p := r.next()
		require.Equal(t, job.Compact, p.Kind)
		require.EqualValues(t, 1, p.Level)
		require.Len(t, p.Partitions, 2, "the third is empty")
		require.Equal(t, order[:4], bundles(p, tp(topic, 0)))
		require.Equal(t, order[:4], bundles(p, tp(topic, 1)))
		open := w.openJobs()
		require.Len(t, open, 1)
		require.ElementsMatch(t, order[:4], open[0].Inputs)
		require.Equal(t, a, open[0].Runner)
		r.finish(p)
		require.Empty(t, w.openJobs())
		require.Equal(t, [3]int{1, 1, 0}, w.levels())
		require.Empty(t, r.rounds(1), "one bundle alone is no job")
		require.Len(t, w.extents(tp(topic, 0)), 2)
	})
}

func TestFirst_WaitsForAge(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 1)
		r := w.own(a)
		w.commit(a, 100, tp(topic, 0))
		w.commit(a, 100, tp(topic, 0))
		require.Empty(t, r.rounds(3), "half a minute")
		r.stop()
		r = w.own(a) // the next owner knows how old bundles are
		defer r.stop()
		p := r.rounds(4)
		require.Len(t, p, 1, "a minute")
		require.Len(t, bundles(p[0], tp(topic, 0)), 2)
	})
}

func TestFirst_BytesMakeAJob(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 1)
		for range 3 {
			w.commit(a, 600<<10, tp(topic, 0))
		}
		r := w.own(a)
		defer r.stop()
		require.Len(t, bundles(r.next(), tp(topic, 0)), 2)
	})
}

// A backlog is worked off by all runners at once, in order, without one bundle in two jobs.
func TestFirst_Backlog(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		var agents []id.Session
		for range 3 {
			agents = append(agents, w.agent())
		}
		topic := w.topic(1, 2)
		var order []id.Bundle
		for i := range 22 {
			order = append(order, w.commit(agents[i%3], 100, tp(topic, int32(i%2))))
			time.Sleep(time.Millisecond) // of one millisecond the lower name is older
		}
		r := w.own(agents...)
		defer r.stop()
		plans := r.rounds(1)
		require.Len(t, plans, 3)
		seen := map[id.Session]bool{}
		for i, j := range w.openJobs() {
			require.ElementsMatch(t, order[4*i:4*i+4], j.Inputs)
			seen[j.Runner] = true
		}
		require.Len(t, seen, 3, "one each")
		r.speak(plans...)
		require.Empty(t, r.rounds(1), "everybody is busy")
		// They end in another order than they began.
		for _, i := range []int{2, 0, 1} {
			r.finish(plans[i])
		}
		r.run()
		require.Equal(t, 0, w.levels()[0], "the last two by their age")
		for p := range int32(2) {
			exts := w.extents(tp(topic, p))
			require.EqualValues(t, 109, exts[len(exts)-1].Last)
		}
	})
}

func TestFirst_MarkersGoWithTheirRuns(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 2)
		mark := func(p int32) {
			w.must(&metadata.WriteMarkers{ProducerID: 7, Partitions: []id.TopicPartition{tp(topic, p)}})
		}
		w.commit(a, 100, tp(topic, 0), tp(topic, 1))
		mark(0)
		mark(0)
		for range 3 {
			w.commit(a, 100, tp(topic, 0))
		}
		mark(0)
		w.commit(a, 100, tp(topic, 0))
		mark(1)
		mark(1)
		r := w.own(a)
		defer r.stop()
		p := r.next()
		require.Len(t, p.Partitions[0].Extents, 7, "four of bundles, two markers between and one behind")
		require.Len(t, p.Partitions[1].Extents, 3)
		r.finish(p)
		for range 2 {
			mark(1)
		}
		for range 3 {
			w.commit(a, 100, tp(topic, 0))
		}
		p = r.next()
		require.Len(t, p.Partitions, 2)
		require.Len(t, p.Partitions[1].Extents, 2, "markers alone, which nothing else would write out")
		for _, x := range p.Partitions[1].Extents {
			require.Equal(t, extent.Marker, x.Kind)
		}
		r.finish(p)
		require.Len(t, w.extents(tp(topic, 1)), 2)
		require.Equal(t, 0, w.levels()[0])
	})
}

// Bundles of a topic that was deleted but is not gone yet have nothing to be rewritten: they hold up nobody.
func TestFirst_VacantBundlesArePassedOver(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		gone, topic := w.topic(1, 1), w.topic(2, 1)
		for range 9 {
			w.commit(a, 100, tp(gone, 0))
		}
		for range 4 {
			w.commit(a, 100, tp(topic, 0))
		}
		w.must(&metadata.DeleteTopic{ID: gone, KeepMs: 1e8})
		r := w.own(a)
		defer r.stop()
		began := time.Now()
		plans := r.await()
		require.Less(t, time.Since(began), 10*time.Second, "at once, not in the next rounds")
		require.Len(t, plans, 1)
		require.Len(t, bundles(plans[0], tp(topic, 0)), 3, "one was in a group with vacant ones")
	})
}

func TestFirst_Off(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 1)
		for range 9 {
			w.commit(a, 100, tp(topic, 0))
		}
		r := w.own(a)
		defer r.stop()
		time.Sleep(time.Hour)
		require.Empty(t, r.plans())
	}, func(s *planner.Settings) { s.Off = true })
}
