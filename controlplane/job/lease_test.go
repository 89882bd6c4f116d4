package job_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	planner "github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// four commits four bundles, which are a job.
func (w *world) four(session id.Session, partitions ...id.TopicPartition) {
	w.t.Helper()
	for range 4 {
		w.commit(session, 100, partitions...)
	}
}

func (r *replica) cancelled() []id.Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.dropped)
}

// states gives the states of the jobs listed, by id.
func (r *replica) states() map[id.Session]string {
	r.t.Helper()
	list, err := r.p.List()
	require.NoError(r.t, err)
	states := map[id.Session]string{}
	for _, i := range list {
		states[id.Session(i.ID)] = i.State
	}
	return states
}

func TestLease_OfARunnerThatIsSilent(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 1)
		w.four(a, tp(topic, 0))
		r := w.own(a)
		defer r.stop()
		p := r.next()
		require.True(t, r.Progress(a, p.ID, 0))
		for range 12 {
			w.pass(50 * time.Second)
			require.True(t, r.Progress(a, p.ID, 10), "as long as it speaks")
		}
		w.pass(59 * time.Second)
		require.Len(t, w.openJobs(), 1)
		w.pass(3 * time.Second)
		require.Equal(t, []id.Session{p.ID}, r.cancelled())
		require.Equal(t, planner.StateAborted, r.states()[p.ID])

		again := r.await()
		require.Len(t, again, 1)
		require.Greater(t, again[0].ID, p.ID, "a new token")
		// The old runner comes late.
		require.False(t, r.Progress(a, p.ID, 20))
		require.NoError(t, r.Complete(t.Context(), p.ID, job.AppendOutcome(nil, work(p, 2000)), true), "which is no error")
		require.Equal(t, 4, w.levels()[0], "and without effect")
		r.finish(again[0])
		require.Equal(t, [3]int{0, 1, 0}, w.levels())
	})
}

// A plan may be lost with the stream that it was sent by: its runner never speaks of it.
func TestLease_OfAJobThatNeverBegan(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 1)
		w.four(a, tp(topic, 0))
		r := w.own(a)
		defer r.stop()
		p := r.next()
		w.pass(25 * time.Second)
		require.NotEqual(t, p.ID, append(w.openJobs(), metadata.JobInfo{})[0].ID)
	})
}

func TestLease_EndsWithTheSession(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a, b := w.agent(), w.agent()
		topic := w.topic(1, 1)
		w.four(a, tp(topic, 0))
		r := w.own(a, b)
		defer r.stop()
		p := r.next()
		runner := w.openJobs()[0].Runner
		w.must(&metadata.CloseSession{Session: runner})
		require.Empty(t, w.openJobs(), "by the command itself")
		again := r.await()
		require.Len(t, again, 1)
		require.NotEqual(t, runner, w.openJobs()[0].Runner)
		require.Equal(t, planner.StateAborted, r.states()[p.ID])
		require.False(t, r.Progress(runner, p.ID, 1))
	})
}

// Who is not connected, drains or has no such role gets no job.
func TestHandOut_ToThoseWhoCan(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		away, drains, able := w.agent(), w.agent(), w.agent()
		plain := w.must(&metadata.OpenSession{
			Instance: "plain", Roles: metadata.RoleProduce, Endpoints: []metadata.Endpoint{{Host: "h", Port: 1}},
		}).Value.(metadata.OpenSessionResult).Session
		topic := w.topic(1, 1)
		w.must(&metadata.DrainSession{Session: drains})
		for range 4 {
			w.four(able, tp(topic, 0))
		}
		r := w.own(drains, able, plain)
		defer r.stop()
		_ = away
		r.speak(r.rounds(1)...)
		open := w.openJobs()
		require.Len(t, open, 1)
		require.Equal(t, able, open[0].Runner)
	})
}

func TestHandOut_SeveralPerAgent(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a, b := w.agent(), w.agent()
		topic := w.topic(1, 1)
		for range 3 {
			w.four(a, tp(topic, 0))
		}
		r := w.own(a, b)
		defer r.stop()
		require.Len(t, r.rounds(1), 3)
		load := map[id.Session]int{}
		for _, j := range w.openJobs() {
			load[j.Runner]++
		}
		require.Len(t, load, 2, "least loaded first")
	}, func(s *planner.Settings) { s.PerAgent = 2 })
}

// A plan with many extents goes in parts.
func TestHandOut_InParts(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 5000)
		var all []id.TopicPartition
		for p := range int32(5000) {
			all = append(all, tp(topic, p))
		}
		for range 4 {
			w.commit(a, 61, all...)
		}
		r := w.own(a)
		defer r.stop()
		p := r.next()
		require.Len(t, p.Partitions, 5000)
		r.finish(p)
		require.Equal(t, [3]int{0, 1, 0}, w.levels())
	})
}

// An owner change in the midst of a job: its runner goes on and hands in to the next owner.
func TestOwners_TakeOpenJobsOver(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 1)
		w.four(a, tp(topic, 0))
		w.four(a, tp(topic, 0))
		first := w.own(a)
		p := first.next()
		second := w.own(a)
		defer second.stop()
		first.stop()
		require.Empty(t, second.rounds(4), "48 s without a word, and nothing is planned twice")
		require.True(t, second.Progress(a, p.ID, 1))
		w.pass(55 * time.Second)
		require.Len(t, w.openJobs(), 1, "a full lease more")
		second.finish(p)
		require.Equal(t, [3]int{4, 1, 0}, w.levels())
		require.Len(t, second.rounds(1), 1)
	})
}

// A replica that lost ownership without knowing it plans and hands out nothing that counts.
func TestOwners_TwoAtOnce(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 1)
		first := w.own(a)
		defer first.stop()
		second := w.own(a)
		defer second.stop()
		w.four(a, tp(topic, 0))
		plans := second.rounds(1)
		require.Len(t, plans, 1)
		second.speak(plans...)
		require.Empty(t, first.rounds(1))
		require.False(t, first.Progress(a, plans[0].ID, 1))
		require.Error(t, first.Complete(t.Context(), plans[0].ID, job.AppendOutcome(nil, work(plans[0], 2000)), true))
		require.Error(t, first.Abort(t.Context(), plans[0].ID, "", job.Unreadable{}))
		require.Len(t, w.openJobs(), 1)
		_, err := first.p.List()
		require.Error(t, err)
		second.finish(plans[0])
	})
}

// The answer to StartJob is lost: the job is open, and nobody runs it. It expires.
func TestOwners_StartWithUnknownOutcome(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 1)
		w.four(a, tp(topic, 0))
		r := w.own(a)
		defer r.stop()
		r.mu.Lock()
		r.lose = 1
		r.mu.Unlock()
		require.Empty(t, r.rounds(1))
		lost := w.openJobs()
		require.Len(t, lost, 1)
		again := r.await()
		require.NotEqual(t, lost[0].ID, again[0].ID)
		open := w.openJobs()
		require.Len(t, open, 1, "never two of the same")
	})
}

func TestComplete_AnswersTwice(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 3)
		w.four(a, tp(topic, 0), tp(topic, 1), tp(topic, 2))
		r := w.own(a)
		defer r.stop()
		p := r.next()
		whole := work(p, 2000)
		part := func(from, to int) []byte {
			return job.AppendOutcome(nil, &job.Outcome{Bundles: whole.Bundles, Partitions: whole.Partitions[from:to]})
		}
		ctx := context.Background()
		for range 2 {
			require.NoError(t, r.Complete(ctx, p.ID, part(0, 1), false))
		}
		r.mu.Lock()
		r.lose = 1
		r.mu.Unlock()
		require.Error(t, r.Complete(ctx, p.ID, part(1, 2), false), "the answer is lost")
		require.NoError(t, r.Complete(ctx, p.ID, part(1, 2), false))
		r.mu.Lock()
		r.lose = 1
		r.mu.Unlock()
		require.Error(t, r.Complete(ctx, p.ID, part(2, 3), true))
		require.Empty(t, w.openJobs())
		for range 2 {
			require.NoError(t, r.Complete(ctx, p.ID, part(2, 3), true))
			require.NoError(t, r.Complete(ctx, p.ID, part(0, 1), false))
		}
		require.Equal(t, [3]int{0, 1, 0}, w.levels())
		require.Equal(t, planner.StateCompleted, r.states()[p.ID])
		for n := range int32(3) {
			require.Len(t, w.extents(tp(topic, n)), 1)
		}
	})
}

// What is no outcome of the job ends it, and its inputs are planned anew.
// A job that ends while a round looks at the state of a moment before has ended: nobody waits for its runner any more.
func TestComplete_WhileARoundHasAnOlderState(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		w.four(a, tp(w.topic(1, 1), 0))
		r := w.own(a)
		defer r.stop()
		p := r.next()
		r.mu.Lock()
		r.between = func() { r.finish(p) }
		r.mu.Unlock()
		for range 10 {
			w.pass(30 * time.Second)
		}
		require.Empty(t, w.openJobs())
		require.Empty(t, r.cancelled())
		list, err := r.p.List()
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, planner.StateCompleted, list[0].State)
	})
}

func TestComplete_RefusesWhatIsNone(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 2)
		w.four(a, tp(topic, 0))
		r := w.own(a)
		defer r.stop()
		for _, spoil := range []func(p *job.Plan) []byte{
			func(*job.Plan) []byte { return []byte{9, 9} },
			func(p *job.Plan) []byte {
				o := work(p, 2000)
				o.Partitions[0].ID.Partition = 1
				return job.AppendOutcome(nil, o)
			},
		} {
			for _, p := range r.await() {
				require.ErrorIs(t, r.Complete(t.Context(), p.ID, spoil(p), true), session.ErrBadRequest)
			}
			require.Empty(t, w.openJobs())
			require.Equal(t, 4, w.levels()[0])
		}
	})
}

// What happens to partitions while they are rewritten voids nothing but itself.
func TestComplete_AfterOtherChanges(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		gone, topic := w.topic(1, 1), w.topic(2, 3)
		w.four(a, tp(gone, 0), tp(topic, 0), tp(topic, 1), tp(topic, 2))
		r := w.own(a)
		defer r.stop()
		p := r.next()
		w.must(&metadata.DeleteTopic{ID: gone})
		w.must(&metadata.TrimPartitions{Trims: []metadata.Trim{
			{Partition: tp(topic, 0), Offset: 15}, {Partition: tp(topic, 1), Offset: -1},
		}})
		w.commit(a, 100, tp(topic, 1))
		r.finish(p)
		w.must(&metadata.Tick{})
		require.Equal(t, [3]int{1, 1, 0}, w.levels())
		require.Len(t, w.extents(tp(topic, 0)), 1)
		require.Len(t, w.extents(tp(topic, 1)), 1, "the new one")
		require.Len(t, w.extents(tp(topic, 2)), 1)
		require.Empty(t, r.rounds(2))
	})
}

func TestAbort_ComesAgainInHalves(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 1)
		var names []id.Bundle
		for range 8 {
			names = append(names, w.commit(a, 100, tp(topic, 0)))
		}
		poison := names[1]
		r := w.own(a)
		defer r.stop()
		began := time.Now()
		var sizes []string
		for w.levels()[0] > 1 {
			for _, p := range r.rounds(1) {
				inputs := bundles(p, tp(topic, 0))
				if slices.Contains(inputs, poison) {
					sizes = append(sizes, fmt.Sprint(len(inputs)))
					require.NoError(t, r.Abort(t.Context(), p.ID, "out of memory", job.Unreadable{}))
					continue
				}
				r.finish(p)
			}
			require.Less(t, time.Since(began), time.Hour)
		}
		require.Equal(t, []string{"4", "4", "2"}, sizes[:3])
		_, _, _, live := w.frozen().Bundle(poison)
		require.True(t, live)
		w.extents(tp(topic, 0))
		tries := 0
		for range 24 * 30 {
			for _, p := range r.rounds(1) {
				if p.Level == 2 {
					r.finish(p)
					continue
				}
				require.Equal(t, []id.Bundle{poison}, bundles(p, tp(topic, 0)))
				tries++
				require.NoError(t, r.Abort(t.Context(), p.ID, "out of memory", job.Unreadable{}))
			}
		}
		require.Positive(t, tries)
		require.Less(t, tries, 12, "in more than two hours")
	})
}

// Bundles that the only runner twice found corrupt or missing are left out; what lies around them is compacted. Six hours later they are
// tried again.
func TestAbort_UnreadableInputs(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 2)
		var names []id.Bundle
		for range 5 {
			names = append(names, w.commit(a, 100, tp(topic, 0), tp(topic, 1)))
		}
		r := w.own(a)
		defer r.stop()
		require.NoError(t, r.Abort(t.Context(), r.next().ID, "checksum", job.Unreadable{Bundles: []id.Bundle{names[1], names[1], 12345}}))
		require.Zero(t, w.gauge("freshet_jobs_unreadable_bundles"))
		p := r.await()[0]
		require.Equal(t, names[:4], bundles(p, tp(topic, 0)))
		require.NoError(t, r.Abort(t.Context(), p.ID, "checksum", job.Unreadable{Bundles: []id.Bundle{names[1]}}))
		p = r.next()
		require.Equal(t, []id.Bundle{names[0], names[2], names[3], names[4]}, bundles(p, tp(topic, 0)))
		runs := 0
		for range p.Partitions[0].Runs {
			runs++
		}
		require.Equal(t, 2, runs)
		require.EqualValues(t, 1, w.gauge("freshet_jobs_unreadable_bundles"))
		r.finish(p)
		require.Equal(t, [3]int{1, 1, 0}, w.levels())
		require.Len(t, w.extents(tp(topic, 0)), 3)
		// Later levels go on around it.
		for range 3 {
			w.four(a, tp(topic, 0), tp(topic, 1))
			r.run()
		}
		require.Equal(t, 1, w.levels()[0])
		require.Positive(t, w.levels()[2])

		time.Sleep(6 * time.Hour) // sleeps: as long as they are left out, in the bubble
		w.four(a, tp(topic, 0), tp(topic, 1))
		r.run()
		_, extents, _, _ := w.frozen().Bundle(names[1])
		require.Zero(t, extents, "it can be read again")
	})
}

// One runner alone is not believed: its own way to the store may be what is broken. It pauses as after every other failure, and others
// compact what it could not read.
func TestAbort_OneRunnerThatFindsNothing(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		sick, able := w.agent(), w.agent()
		topic := w.topic(1, 1)
		r := w.own(sick, able)
		defer r.stop()
		spoilt := 0
		for i := range 60 {
			if i < 40 {
				w.four(able, tp(topic, 0))
			}
			for _, p := range r.rounds(1) {
				if w.runnerOf(p.ID) == sick {
					spoilt++
					require.NoError(t, r.Abort(t.Context(), p.ID, "objects are missing", job.Unreadable{Bundles: bundles(p, tp(topic, 0))}))
					continue
				}
				r.finish(p)
			}
			require.Zero(t, w.gauge("freshet_jobs_unreadable_bundles"))
		}
		require.Positive(t, spoilt)
		require.Less(t, spoilt, 9, "in twelve minutes")
		require.Zero(t, w.levels()[0])
	})
}

// A job with a bundle that a runner could not read goes to another one, whose word decides. It holds the other inputs up no longer.
func TestAbort_AnotherRunnerDecides(t *testing.T) {
	for _, missing := range []bool{true, false} {
		t.Run(fmt.Sprint("missing ", missing), func(t *testing.T) {
			in(t, func(w *world) {
				t := w.t
				a, b := w.agent(), w.agent()
				topic := w.topic(1, 1)
				lost := w.commit(a, 100, tp(topic, 0))
				for range 3 {
					w.commit(a, 100, tp(topic, 0))
				}
				r := w.own(a, b)
				defer r.stop()
				p := r.next()
				first := w.runnerOf(p.ID)
				w.four(a, tp(topic, 0)) // the other runner gets a job meanwhile, so that it would be the first one's turn
				require.NoError(t, r.Abort(t.Context(), p.ID, "missing", job.Unreadable{Bundles: []id.Bundle{lost}}))
				r.finish(r.await()[0])
				p = r.await()[0]
				require.NotEqual(t, first, w.runnerOf(p.ID))
				require.Contains(t, bundles(p, tp(topic, 0)), lost)
				if !missing {
					r.finish(p)
					require.Zero(t, w.levels()[0])
					return
				}
				require.NoError(t, r.Abort(t.Context(), p.ID, "missing", job.Unreadable{Bundles: []id.Bundle{lost}}))
				require.EqualValues(t, 1, w.gauge("freshet_jobs_unreadable_bundles"))
				for range 3 { // neither the other inputs nor the second runner wait
					w.commit(a, 100, tp(topic, 0))
				}
				p = r.next()
				require.Len(t, bundles(p, tp(topic, 0)), 4)
				require.NotContains(t, bundles(p, tp(topic, 0)), lost)
			})
		})
	}
}

// A bundle whose extents have left the state since the plan was made may well be missing.
func TestAbort_MissingInputsOfNobody(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		gone, topic := w.topic(1, 1), w.topic(2, 1)
		lost := w.commit(a, 100, tp(gone, 0))
		w.four(a, tp(topic, 0))
		r := w.own(a)
		defer r.stop()
		p := r.next()
		w.must(&metadata.DeleteTopic{ID: gone})
		w.must(&metadata.Tick{})
		require.NoError(t, r.Abort(t.Context(), p.ID, "missing", job.Unreadable{Bundles: []id.Bundle{lost}}))
		require.Zero(t, w.gauge("freshet_jobs_unreadable_bundles"))
	})
}

// What waits after a setback holds nothing up that was committed later.
func TestAbort_OthersGoAhead(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a, b, c := w.agent(), w.agent(), w.agent()
		topic := w.topic(1, 1)
		r := w.own(a, b, c)
		defer r.stop()
		for range 64 {
			w.commit(a, 100, tp(topic, 0))
		}
		for range 2 {
			require.NoError(t, r.Abort(t.Context(), r.await()[0].ID, "", job.Unreadable{}))
		}
		var want []id.Bundle
		for range 64 {
			want = append(want, w.commit(a, 100, tp(topic, 0)))
		}
		require.Equal(t, want, bundles(r.await()[0], tp(topic, 0)))
	}, func(s *planner.Settings) { s.First.Bundles = 64 })
}

// A runner that fails pauses, longer each time, so that one that can do nothing spoils little; work goes to others.
func TestAbort_TheRunnerPauses(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		broken, able := w.agent(), w.agent()
		topic := w.topic(1, 1)
		r := w.own(broken, able)
		defer r.stop()
		fails, done := 0, 0
		for range 60 {
			w.four(able, tp(topic, 0))
			for _, p := range r.rounds(1) {
				if j, _ := w.frozen().Job(p.ID); j.Runner == broken {
					fails++
					require.NoError(t, r.Abort(t.Context(), p.ID, "no disk", job.Unreadable{}))
					continue
				}
				r.finish(p)
				done++
			}
		}
		require.Positive(t, fails)
		require.Less(t, fails, 9, "in twelve minutes")
		require.Greater(t, done, 50)
	})
}
