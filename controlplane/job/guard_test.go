package job_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	planner "github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// configure changes one config of a topic.
func (w *world) configure(topic id.Topic, name, value string) {
	w.t.Helper()
	w.must(&metadata.SetConfigs{Resource: metadata.ConfigTopic, Topic: topic, Set: map[string]string{name: value}})
}

// cleaning begins a term with one agent, its runner, and a job that cleans partition 0 of topic.
func (w *world) cleaning() (r *replica, topic id.Topic, p *job.Plan) {
	w.t.Helper()
	a := w.agent()
	topic = w.topic(1, 1, "cleanup.policy", "compact")
	r = w.own(a)
	r.fill(a, 1, 100, tp(topic, 0))
	p = r.next()
	require.Equal(w.t, job.Clean, p.Kind)
	return r, topic, p
}

// TestComplete_AfterTheConfigsChanged covers a cleaning that ends after the switch to delete.
func TestComplete_AfterTheConfigsChanged(t *testing.T) {
	for config, value := range map[string]string{"cleanup.policy": "delete", "min.compaction.lag.ms": "1000000"} {
		t.Run(config, func(t *testing.T) {
			in(t, func(w *world) {
				r, topic, p := w.cleaning()
				defer r.stop()
				before := w.extents(tp(topic, 0))
				w.configure(topic, config, value)
				require.NoError(w.t, r.Complete(w.t.Context(), p.ID, job.AppendOutcome(nil, work(p, 2000)), true))
				require.Equal(w.t, before, w.extents(tp(topic, 0)))
				require.Zero(w.t, w.frozen().CleanedTo(tp(topic, 0)))
				require.Empty(w.t, w.openJobs())
			})
		})
	}
}

// The runner of a cleaning that the state ended is told within two rounds, and nothing is held against it.
func TestClean_IsCancelledWithItsConfigs(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		r, topic, p := w.cleaning()
		defer r.stop()
		a := w.runnerOf(p.ID)
		require.True(t, r.Progress(a, p.ID, 1))
		w.configure(topic, "min.compaction.lag.ms", "1")
		require.Empty(t, w.openJobs())
		w.pass(25 * time.Second)
		require.Equal(t, []id.Session{p.ID}, r.cancelled())
		require.Equal(t, planner.StateAborted, r.states()[p.ID])
		require.False(t, r.Progress(a, p.ID, 2))
		require.Equal(t, job.Clean, r.await()[0].Kind, "it is due again at once")
	})
}

// Between a round's state and its commands, configs may change.
func TestClean_IsNotStartedUnderOtherConfigs(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 1, "cleanup.policy", "compact")
		r := w.own(a)
		defer r.stop()
		w.four(a, tp(topic, 0))
		p := r.next()
		synctest.Wait() // no round is under way
		r.mu.Lock()
		r.between = func() { w.configure(topic, "cleanup.policy", "delete") }
		r.mu.Unlock()
		r.finish(p)
		require.Empty(t, r.rounds(3))
		require.Empty(t, w.openJobs())
	})
}

func (w *world) age(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now().Add(by).UnixMilli()
	w.state.Apply(w.state.Index()+1, &metadata.Batch{Now: now, Commands: []metadata.Command{&metadata.Tick{}}}, nil, nil)
}

func TestClean_GoesByTheEarlierClock(t *testing.T) {
	for name, test := range map[string]struct{ state, behind time.Duration }{
		"the state's is ahead":    {state: 30 * 24 * time.Hour},
		"the store's is behind":   {behind: time.Hour},
		"the store's is ahead":    {behind: -30 * 24 * time.Hour},
		"both are about the same": {},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				t := w.t
				w.behind = test.behind
				a := w.agent()
				topic := w.topic(1, 1, "cleanup.policy", "compact", "min.compaction.lag.ms", "3600000")
				r := w.own(a)
				defer r.stop()
				r.fill(a, 1, 100, tp(topic, 0))
				w.age(test.state)
				require.Empty(t, r.rounds(10), "younger than the lag")
				w.pass(2 * time.Hour)
				w.age(test.state)
				p := r.await()[0]
				require.Equal(t, job.Clean, p.Kind)
				require.LessOrEqual(t, p.Partitions[0].Clean.NowMs, time.Now().Add(-max(0, test.behind)).UnixMilli())
			})
		})
	}
}

func TestClean_WaitsForTheStoresTime(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		w.silent = true
		a := w.agent()
		topic := w.topic(1, 1, "cleanup.policy", "compact")
		r := w.own(a)
		defer r.stop()
		w.four(a, tp(topic, 0))
		p := r.next()
		require.Equal(t, job.Compact, p.Kind, "which goes by no time")
		r.finish(p)
		require.Empty(t, r.rounds(10))
		require.LessOrEqual(t, w.asked, 4, "once a minute")
		w.mu.Lock()
		w.silent = false
		w.mu.Unlock()
		require.Equal(t, job.Clean, r.await()[0].Kind)
	})
}

// Where no topic is compacted, nobody asks the store.
func TestClean_AsksForNoTimeWithoutCompactedTopics(t *testing.T) {
	in(t, func(w *world) {
		a := w.agent()
		topic := w.topic(1, 1)
		r := w.own(a)
		defer r.stop()
		w.four(a, tp(topic, 0))
		r.finish(r.next())
		require.Zero(w.t, w.asked)
	})
}

// A compacted topic of which nothing is due needs no time of the store either.
func TestClean_AsksForNoTimeBeforeACleaningIsDue(t *testing.T) {
	in(t, func(w *world) {
		a := w.agent()
		w.topic(1, 1, "cleanup.policy", "compact")
		late := w.topic(2, 1, "cleanup.policy", "compact", "min.compaction.lag.ms", "86400000")
		r := w.own(a)
		defer r.stop()
		w.four(a, tp(late, 0))
		r.finish(r.next())
		require.Empty(w.t, r.rounds(10))
		require.Zero(w.t, w.asked)
	})
}

// TestLease_OfARunnerWithoutProgress covers a runner that speaks and does nothing.
func TestLease_OfARunnerWithoutProgress(t *testing.T) {
	const stall = 15 * time.Minute
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 1)
		for range 4 {
			w.commit(a, 4<<20, tp(topic, 0))
		}
		r := w.own(a)
		defer r.stop()
		p := r.next()
		// speak speaks for a while of so many bytes.
		speak := func(d time.Duration, bytes int64) {
			for ; d > 0; d -= 10 * time.Second {
				require.True(t, r.Progress(a, p.ID, bytes))
				w.pass(10 * time.Second)
			}
		}
		speak(stall-20*time.Second, 1<<20-1)
		speak(stall-20*time.Second, 1<<20)
		speak(stall-20*time.Second, 2<<20)
		speak(10*time.Second, 3<<20-1)
		require.Len(t, w.openJobs(), 1)
		w.pass(12 * time.Second)
		require.Empty(t, w.openJobs(), "a byte less than what counts")
		require.Equal(t, []id.Session{p.ID}, r.cancelled())
		require.False(t, r.Progress(a, p.ID, 4<<20))
		require.NoError(t, r.Complete(t.Context(), p.ID, job.AppendOutcome(nil, work(p, 2000)), true))
		require.Zero(t, w.levels()[1], "late, and without effect")
	}, func(s *planner.Settings) { s.First.Bytes = 1 << 30 })
}

func TestLease_PartsAreProgress(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 2)
		w.four(a, tp(topic, 0), tp(topic, 1))
		r := w.own(a)
		defer r.stop()
		p := r.next()
		for range 80 {
			require.True(t, r.Progress(a, p.ID, 1))
			w.pass(10 * time.Second)
		}
		o := work(p, 2000)
		o.Partitions = o.Partitions[:1]
		require.NoError(t, r.Complete(t.Context(), p.ID, job.AppendOutcome(nil, o), false))
		for range 80 {
			require.True(t, r.Progress(a, p.ID, 1))
			w.pass(10 * time.Second)
		}
		require.Len(t, w.openJobs(), 1)
	})
}

// What a runner claims to have read counts up to what there is to read.
func TestLease_ProgressEndsWithTheInputs(t *testing.T) {
	in(t, func(w *world) {
		a := w.agent()
		topic := w.topic(1, 1)
		w.four(a, tp(topic, 0))
		r := w.own(a)
		defer r.stop()
		p := r.next()
		for i := range int64(100) {
			if !r.Progress(a, p.ID, i<<20) {
				break
			}
			w.pass(10 * time.Second)
		}
		require.Empty(w.t, w.openJobs())
	})
}

func TestComplete_OfAnotherRunner(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a, b := w.agent(), w.agent()
		topic := w.topic(1, 1)
		w.four(a, tp(topic, 0))
		r := w.own(a, b)
		defer func() { r.stop() }()
		p := r.next()
		other := a + b - r.runnerOf(p.ID)
		for range 2 { // the second owner finds the job in the state
			require.ErrorIs(t, r.Tenure.Complete(t.Context(), other, p.ID, job.AppendOutcome(nil, work(p, 2000)), true), session.ErrBadRequest)
			require.ErrorIs(t, r.Tenure.Complete(t.Context(), other, p.ID, []byte("nonsense"), true), session.ErrBadRequest)
			require.ErrorIs(t, r.Tenure.Abort(t.Context(), other, p.ID, "no", job.Unreadable{}), session.ErrBadRequest)
			require.False(t, r.Progress(other, p.ID, 1))
			require.Len(t, w.openJobs(), 1)
			r.stop()
			r = w.own(a, b)
		}
		r.finish(p)
		require.Equal(t, [3]int{0, 1, 0}, w.levels())
	})
}

// TestComplete_IsHeldToThePlan hands in outcomes that a job of the kind cannot have.
func TestComplete_IsHeldToThePlan(t *testing.T) {
	for name, test := range map[string]struct {
		kind  job.Kind
		spoil func(o *job.Outcome)
	}{
		"a compaction that cleans":         {job.Compact, func(o *job.Outcome) { o.Partitions[0].CleanedTo = 1 }},
		"a compaction that forgets aborts": {job.Compact, func(o *job.Outcome) { o.Partitions[0].DroppedAborted = []int64{3} }},
		"another partition":                {job.Compact, func(o *job.Outcome) { o.Partitions[0].ID.Partition = 9 }},
		"more batches than fit":            {job.Compact, func(o *job.Outcome) { o.Partitions[0].Extents[0].Batches = 1 << 20 }},
		"a cleaning from elsewhere": {job.Clean, func(o *job.Outcome) {
			o.Partitions[0].From, o.Partitions[0].Extents[0].Base = 10, 10
		}},
		"a cleaning beyond its plan": {job.Clean, func(o *job.Outcome) {
			r := &o.Partitions[0]
			r.To, r.CleanedTo = r.To+10, r.CleanedTo+10
			r.Extents[len(r.Extents)-1].Last = r.To
		}},
		"a cleaning of nothing": {job.Clean, func(o *job.Outcome) { o.Partitions[0].CleanedTo = 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				t := w.t
				a := w.agent()
				topic := w.topic(1, 1, "cleanup.policy", "compact")
				r := w.own(a)
				defer r.stop()
				w.four(a, tp(topic, 0))
				p := r.next()
				if test.kind == job.Clean {
					r.finish(p)
					w.commit(a, 100, tp(topic, 0)) // beyond the plan
					p = r.next()
				}
				require.Equal(t, test.kind, p.Kind)
				o := work(p, 2000)
				test.spoil(o)
				before := w.extents(tp(topic, 0))
				require.ErrorIs(t, r.Complete(t.Context(), p.ID, job.AppendOutcome(nil, o), true), session.ErrBadRequest)
				require.Equal(t, before, w.extents(tp(topic, 0)))
				require.Empty(t, w.openJobs(), "a runner that says such a thing is not asked further")
			})
		})
	}
}

func TestComplete_SizesStay(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		topic := w.topic(1, 1)
		w.four(a, tp(topic, 0))
		r := w.own(a)
		defer r.stop()
		p := r.next()
		part := &job.Outcome{Bundles: []job.Bundle{{N: 1, Bytes: 1000}}}
		require.NoError(t, r.Complete(t.Context(), p.ID, job.AppendOutcome(nil, part), false))
		part.Bundles[0].Bytes++
		require.ErrorIs(t, r.Complete(t.Context(), p.ID, job.AppendOutcome(nil, part), false), session.ErrBadRequest)
	})
}

// TestAbort_UncleanablePartitionsStarveNothing has more partitions that cannot be cleaned than setbacks of ranges: neither
// compaction nor the cleaning of others waits for them.
func TestAbort_UncleanablePartitionsStarveNothing(t *testing.T) {
	for name, byInputs := range map[string]bool{"the runner may be to blame": false, "the inputs are to blame": true} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				t := w.t
				const partitions = 300
				a := w.agent()
				bad, plain := w.topic(1, partitions, "cleanup.policy", "compact"), w.topic(2, 1)
				well := w.topic(3, 1, "cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.01")
				var all []id.TopicPartition
				for n := range int32(partitions) {
					all = append(all, tp(bad, n))
				}
				w.four(a, append(all, tp(well, 0))...)
				r := w.own(a)
				defer r.stop()
				r.finish(r.next())
				compacted, cleaned := 0, 0
				for range 120 { // half an hour
					w.four(a, tp(plain, 0))
					for range 6 {
						w.pass(2500 * time.Millisecond)
						for _, p := range r.plans() {
							switch {
							case p.Kind == job.Clean && p.Partitions[0].ID.Topic == bad:
								var corrupt []id.Bundle
								if byInputs {
									corrupt = []id.Bundle{p.Partitions[0].Extents[0].Bundle}
								}
								require.NoError(t, r.Abort(t.Context(), p.ID, "partition cannot be cleaned", job.Unreadable{Bundles: corrupt}))
								continue
							case p.Kind == job.Clean:
								cleaned++
							case p.Level == 1:
								compacted++
							}
							r.finish(p)
						}
					}
				}
				require.Greater(t, compacted, 100)
				require.LessOrEqual(t, w.levels()[0], 8)
				if byInputs {
					require.Positive(t, cleaned, "the runner does not pause for what lies in the inputs")
				}
			})
		})
	}
}

// The times of a job's outcome are no older and no younger than what it replaced.
func TestComplete_TimestampsAreThoseOfTheInputs(t *testing.T) {
	in(t, func(w *world) {
		a := w.agent()
		topic := w.topic(1, 1)
		w.four(a, tp(topic, 0))
		newest := time.Now().UnixMilli()
		r := w.own(a)
		defer r.stop()
		p := r.next()
		o := work(p, 2000)
		for i := range o.Partitions[0].Extents {
			o.Partitions[0].Extents[i].MaxTimestamp = 1<<63 - 1
		}
		require.NoError(w.t, r.Complete(context.Background(), p.ID, job.AppendOutcome(nil, o), true))
		exts := w.extents(tp(topic, 0))
		require.Equal(w.t, newest, exts[len(exts)-1].MaxTimestamp)
		require.Equal(w.t, extent.Absolute, exts[0].Kind)
	})
}
