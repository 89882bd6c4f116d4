package job_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	planner "github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// of gives the plans of a kind.
func of(kind job.Kind, plans []*job.Plan) (some []*job.Plan) {
	for _, p := range plans {
		if p.Kind == kind {
			some = append(some, p)
		}
	}
	return some
}

func TestClean_TheDirtiestFirst(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a, b := w.agent(), w.agent()
		topic := w.topic(1, 2, "cleanup.policy", "compact", "delete.retention.ms", "5000")
		plain := w.topic(2, 1)
		r := w.own(a)
		r.fill(a, 1, 100, tp(topic, 0), tp(topic, 1), tp(plain, 0))
		p := r.next()
		require.Equal(t, job.Clean, p.Kind)
		require.EqualValues(t, 2, p.Level)
		require.Equal(t, tp(topic, 0), p.Partitions[0].ID)
		require.Len(t, p.Partitions, 1)
		spec := p.Partitions[0].Clean
		require.EqualValues(t, 0, spec.FirstDirty)
		require.EqualValues(t, 5000, spec.DeleteRetentionMs)
		require.EqualValues(t, 1<<20+12, spec.MaxBatchBytes)
		require.InDelta(t, time.Now().UnixMilli(), spec.NowMs, 60_000)
		r.stop() // before the runner is free again, or another round may start a job
		r.finish(p)
		require.EqualValues(t, 40, w.frozen().CleanedTo(tp(topic, 0)))

		// Partition 1 is all dirty, the other one is half clean, and not due.
		r = w.own(a, b)
		defer r.stop()
		for range 4 {
			w.commit(a, 70, tp(topic, 0), tp(topic, 1))
		}
		plans := r.rounds(1)
		require.Len(t, of(job.Compact, plans), 1)
		cleans := of(job.Clean, plans)
		require.Len(t, cleans, 1)
		require.Equal(t, tp(topic, 1), cleans[0].Partitions[0].ID)
		require.Len(t, cleans[0].Partitions[0].Extents, 1, "level 0 is not cleaned")
		for _, p := range plans {
			r.finish(p)
		}
		all := r.run()
		for _, p := range of(job.Clean, all) {
			require.NotEqual(t, tp(topic, 0), p.Partitions[0].ID)
		}
		w.extents(tp(topic, 0))
		w.extents(tp(topic, 1))
	})
}

// A bundle of level 2 that cannot be read is found by cleanings alone. They say so as compaction does, and are tried again with pauses.
func TestClean_UnreadableInput(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 1, "cleanup.policy", "compact")
		r := w.own(a)
		defer r.stop()
		r.fill(a, 1, 100, tp(topic, 0))
		tries := 0
		for range 500 { // 100 minutes
			for _, p := range r.rounds(1) {
				if p.Kind != job.Clean {
					r.finish(p)
					continue
				}
				tries++
				lost := p.Partitions[0].Extents[0].Bundle
				require.NoError(t, r.Abort(t.Context(), p.ID, "object is missing", job.Unreadable{Bundles: []id.Bundle{lost, 12345}}))
			}
		}
		require.EqualValues(t, 1, w.gauge("freshet_jobs_unreadable_bundles"))
		require.Greater(t, tries, 2)
		require.Less(t, tries, 12)
	})
}

// Clients can write records that cleaning cannot decompress, and compaction need not. So compaction finds out by itself what it cannot read.
func TestClean_LeavesNothingOutOfCompaction(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		r, topic, p := w.cleaning()
		defer r.stop()
		bad := p.Partitions[0].Extents[0].Bundle
		for range 2 {
			require.NoError(t, r.Abort(t.Context(), p.ID, "decompress", job.Unreadable{Bundles: []id.Bundle{bad}}))
			p = of(job.Clean, r.await())[0]
		}
		require.NoError(t, r.Abort(t.Context(), p.ID, "decompress", job.Unreadable{Bundles: []id.Bundle{bad}}))
		require.EqualValues(t, 1, w.gauge("freshet_jobs_unreadable_bundles"))
		for range 4 {
			w.four(w.runnerOf(p.ID), tp(topic, 0))
		}
		for range 20 {
			for _, p := range r.rounds(1) {
				if p.Kind == job.Clean {
					require.NoError(t, r.Abort(t.Context(), p.ID, "decompress", job.Unreadable{Bundles: []id.Bundle{bad}}))
					continue
				}
				r.finish(p)
			}
		}
		require.False(t, w.live(bad))
		require.Zero(t, w.gauge("freshet_jobs_unreadable_bundles"))
	})
}

// TestClean_UndecodableRecords: cutting keeps intact batches, so the owner does not advise it. If the same bundle is found corrupt later, the
// owner does.
func TestClean_UndecodableRecords(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		core, logs := observer.New(zapcore.ErrorLevel)
		w.log = zap.New(core)
		r, _, p := w.cleaning()
		defer r.stop()
		bad := []id.Bundle{p.Partitions[0].Extents[0].Bundle}
		for range 3 {
			require.NoError(t, r.Abort(t.Context(), p.ID, "decompress", job.Unreadable{Bundles: bad, Intact: true}))
			p = of(job.Clean, r.await())[0]
		}
		require.Zero(t, w.gauge("freshet_jobs_unreadable_bundles"))
		require.Equal(t, 1, logs.Len())
		require.NotContains(t, logs.All()[0].Message, "bundle cut")
		for range 2 {
			require.NoError(t, r.Abort(t.Context(), p.ID, "checksum", job.Unreadable{Bundles: bad}))
			p = of(job.Clean, r.await())[0]
		}
		require.EqualValues(t, 1, w.gauge("freshet_jobs_unreadable_bundles"))
		require.Equal(t, 2, logs.Len())
		require.Contains(t, logs.All()[1].Message, "bundle cut")
	})
}

// A cleaning is believed about bundles of its own extents only.
func TestClean_NamesABundleOfOthers(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		other := w.commit(a, 100, tp(w.topic(2, 1), 0))
		r, _, p := w.cleaning()
		defer r.stop()
		for range 2 {
			require.NoError(t, r.Abort(t.Context(), p.ID, "object is missing", job.Unreadable{Bundles: []id.Bundle{other}}))
			p = of(job.Clean, r.await())[0]
		}
		require.Zero(t, w.gauge("freshet_jobs_unreadable_bundles"))
	})
}

// A partition is never cleaned and compacted by level 2 at the same time, in whatever order they are due.
func TestClean_NeverBesideSecond(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		var agents []id.Session
		for range 6 {
			agents = append(agents, w.agent())
		}
		topic := w.topic(1, 3, "cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.3")
		r := w.own(agents...)
		defer r.stop()
		kinds := map[string]int{}
		held := map[id.Session]*job.Plan{}
		for i := range 60 {
			w.four(agents[0], tp(topic, 0), tp(topic, 1), tp(topic, 2))
			for _, p := range r.rounds(1) {
				kinds[p.Kind.String()+string('0'+rune(p.Level))]++
				held[p.ID] = p
			}
			cleaned := map[id.TopicPartition]bool{}
			for _, p := range of(job.Clean, slices.Collect(maps.Values(held))) {
				require.False(t, cleaned[p.Partitions[0].ID])
				cleaned[p.Partitions[0].ID] = true
			}
			for _, p := range held {
				for _, q := range p.Partitions {
					require.False(t, p.Kind == job.Compact && p.Level == 2 && cleaned[q.ID])
				}
			}
			for n, p := range held {
				r.speak(p)
				if (i+int(n))%3 == 0 {
					r.finish(p)
					delete(held, n)
				}
			}
		}
		require.Positive(t, kinds["compact2"], "%v", kinds)
		require.Positive(t, kinds["clean2"], "%v", kinds)
		for n := range int32(3) {
			w.extents(tp(topic, n))
		}
	})
}

// One runner and work of every kind: none starves.
func TestChoose_NobodyStarves(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		plain := w.topic(1, 8)
		dirty := w.topic(2, 4, "cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0")
		var all []id.TopicPartition
		for n := range int32(8) {
			all = append(all, tp(plain, n))
		}
		for n := range int32(4) {
			all = append(all, tp(dirty, n))
		}
		r := w.own(a)
		defer r.stop()
		var kinds []string
		for range 20 {
			for range 12 { // three times what a round can do
				w.commit(a, 100, all...)
			}
			for _, p := range r.rounds(1) {
				kinds = append(kinds, p.Kind.String()+string('0'+rune(p.Level)))
				r.finish(p)
			}
		}
		count := map[string]int{}
		for _, k := range kinds[6:] {
			count[k]++
		}
		require.GreaterOrEqual(t, count["compact1"], 4, "%v", kinds)
		require.GreaterOrEqual(t, count["compact2"], 3, "%v", kinds)
		require.GreaterOrEqual(t, count["clean2"], 3, "%v", kinds)
	}, func(s *planner.Settings) { s.Second.JobBytes = 2000; s.Second.Extents = 2 })
}
