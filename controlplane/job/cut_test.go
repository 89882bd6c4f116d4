package job_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	planner "github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// An operator has a bundle cut out that jobs leave out: one job takes what all partitions have in it, and nothing else.
func TestPlanner_Cut(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 2)
		w.commit(a, 100, tp(topic, 0))
		lost := w.commit(a, 100, tp(topic, 0), tp(topic, 1))
		w.commit(a, 100, tp(topic, 0))
		w.settings.Off = true // explicit calls are followed nevertheless
		r := w.own(a)
		defer r.stop()

		holding, err := r.p.Holds(lost)
		require.NoError(t, err)
		require.Equal(t, planner.Holding{
			Bundle: lost.String(), Partitions: 2, Offsets: 20,
			Ranges: []planner.Range{{Partition: "t1-0", From: 10, To: 19}, {Partition: "t1-1", From: 0, To: 9}},
		}, holding)
		cut, err := r.p.Cut(t.Context(), lost)
		require.NoError(t, err)
		require.NotZero(t, cut.Job)
		holding.Job = cut.Job
		require.Equal(t, holding, cut)

		p := r.next()
		require.Equal(t, job.Cut, p.Kind)
		require.EqualValues(t, cut.Job, p.ID)
		require.Len(t, p.Partitions, 2)
		for _, q := range p.Partitions {
			require.Len(t, q.Extents, 1)
			require.Equal(t, lost, q.Extents[0].Bundle)
		}
		r.finish(p)
		for n := range int32(2) {
			require.NotContains(t, bundlesOf(w.extents(tp(topic, n))), lost)
		}
		_, err = r.p.Holds(lost)
		require.ErrorIs(t, err, planner.ErrNoRecords)
		_, err = r.p.Cut(t.Context(), lost)
		require.ErrorIs(t, err, planner.ErrNoRecords)
	})
}

// While one call is under way, the next one waits for its turn. If its caller gives up meanwhile, its bundle stays. If the tenure ends, its caller
// learns it.
func TestPlanner_CutWaits(t *testing.T) {
	for name, ends := range map[string]bool{"the caller gives up": false, "the tenure ends": true} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				t := w.t
				a := w.agent()
				first, second := w.commit(a, 100, tp(w.topic(1, 1), 0)), w.commit(a, 100, tp(w.topic(2, 1), 0))
				w.settings.Off = true
				r := w.own(a)
				held := make(chan struct{})
				r.mu.Lock()
				r.between = func() { <-held }
				r.mu.Unlock()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				cut := func(ctx context.Context, b id.Bundle) <-chan error {
					answer := make(chan error, 1)
					go func() {
						_, err := r.p.Cut(ctx, b)
						answer <- err
					}()
					synctest.Wait()
					return answer
				}
				underWay, waits := cut(t.Context(), first), cut(ctx, second)
				if ends {
					r.cancel()
				} else {
					cancel()
					require.ErrorIs(t, <-waits, context.Canceled)
				}
				close(held)
				require.NoError(t, <-underWay)
				w.pass(5 * time.Second)
				require.Len(t, w.openJobs(), 1, "of the call under way")
				r.stop()
				if ends {
					require.ErrorIs(t, <-waits, owner.ErrNotOwner)
				}
			})
		})
	}
}

// Without an agent that can take the job nothing is started.
func TestPlanner_CutWithoutRunner(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		lost := w.commit(a, 100, tp(w.topic(1, 1), 0))
		r := w.own() // the agent is not connected
		defer r.stop()
		_, err := r.p.Cut(t.Context(), lost)
		require.ErrorIs(t, err, planner.ErrNoRunner)
		require.Empty(t, w.openJobs())
	})
}

// A job that was given up leaves everything as it was, and can be started again.
func TestPlanner_CutAgain(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 1)
		lost := w.commit(a, 100, tp(topic, 0))
		r := w.own(a)
		defer r.stop()
		_, err := r.p.Cut(t.Context(), lost)
		require.NoError(t, err)
		require.NoError(t, r.Abort(t.Context(), r.next().ID, "the agent does not know this kind of job", job.Unreadable{}))
		require.Equal(t, []id.Bundle{lost}, bundlesOf(w.extents(tp(topic, 0))))
		time.Sleep(time.Minute) // sleeps: the agent gets no jobs for a while, in the bubble
		_, err = r.p.Cut(t.Context(), lost)
		require.NoError(t, err)
		r.finish(r.next())
		require.NotContains(t, bundlesOf(w.extents(tp(topic, 0))), lost)
	})
}

// What a Cut job wrote is compacted further by the same owner, though its rounds passed the partition's unreadable extents meanwhile.
func TestPlanner_WhatWasCutIsCompactedOn(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 1)
		var names []id.Bundle
		for range 8 {
			names = append(names, w.commit(a, 100, tp(topic, 0)))
		}
		r := w.own(a)
		defer r.stop()
		for range 4 { // two jobs, and each bundle is named twice
			p := r.await()[0]
			require.NoError(t, r.Abort(t.Context(), p.ID, "missing", job.Unreadable{Bundles: bundles(p, tp(topic, 0))}))
		}
		require.EqualValues(t, 8, w.gauge("freshet_jobs_unreadable_bundles"))
		require.Empty(t, r.rounds(5))
		for _, b := range names {
			_, err := r.p.Cut(t.Context(), b)
			require.NoError(t, err)
			r.run()
		}
		require.Zero(t, w.gauge("freshet_jobs_unreadable_bundles"))
		require.Zero(t, w.levels()[1])
		require.Positive(t, w.levels()[2])
	})
}

func bundlesOf(exts []extent.Extent) (names []id.Bundle) {
	for _, x := range exts {
		names = append(names, x.Bundle)
	}
	return names
}
