package errand

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// given is an errand as an agent got it.
type given struct {
	agent  id.Session
	errand *api.Errand
}

// world has agents that answer as each test says.
type world struct {
	*Dispatcher
	t *testing.T

	mu     sync.Mutex
	takers map[id.Session]bool // connected agents: whether they have the jobs role
	all    []given
	// answer, if set for an agent, is called on a goroutine of its own for each errand. Other agents are silent.
	answer map[id.Session]func(*api.Errand)
}

func inWorld(t *testing.T, fn func(w *world), agents ...id.Session) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, Dispatcher: New(Config{Registerer: prometheus.NewRegistry()}), takers: map[id.Session]bool{}, answer: map[id.Session]func(*api.Errand){}}
		for _, a := range agents {
			w.takers[a] = true
		}
		w.Tenure(w)
		fn(w)
		require.Empty(t, w.Dispatcher.mu.open)
		require.Empty(t, w.places)
	})
}

func (w *world) ErrandTakers() []id.Session {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Collect(maps.Keys(w.takers))
	return slices.DeleteFunc(all, func(a id.Session) bool { return !w.takers[a] })
}

func (w *world) MarkTakers() []id.Session {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.takers))
}

func (w *world) GiveErrand(agent id.Session, e *api.Errand) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, given{agent, e})
	if answer := w.answer[agent]; answer != nil {
		go answer(e)
	}
	_, connected := w.takers[agent]
	return connected
}

// join connects an agent.
func (w *world) join(agent id.Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.takers[agent] = true
}

// leave ends the stream of an agent.
func (w *world) leave(agent id.Session) {
	w.mu.Lock()
	delete(w.takers, agent)
	w.mu.Unlock()
	w.Left(agent)
}

// obey makes an agent delete all bundles after a while.
func (w *world) obey(agent id.Session, after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer[agent] = func(e *api.Errand) {
		time.Sleep(after)
		w.Done(agent, deleted(e))
	}
}

func (w *world) givenAll() []given {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

func (w *world) attempts(result string) float64 {
	return testutil.ToFloat64(w.metrics.attempts.WithLabelValues(result))
}

func (w *world) dropped() float64 { return testutil.ToFloat64(w.metrics.dropped) }

// begin deletes bundles in the background.
func (w *world) begin(bundles ...id.Bundle) chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := w.DeleteBundles(w.t.Context(), bundles)
		ended <- err
	}()
	synctest.Wait()
	return ended
}

func deleted(e *api.Errand, failed ...*api.FailedBundle) *api.ErrandDone {
	return &api.ErrandDone{Id: e.Id, Result: &api.ErrandDone_DeletedBundles{DeletedBundles: &api.DeletedBundles{Failed: failed}}}
}

func TestDeleteBundles_ReturnsTheFailures(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answer[1] = func(e *api.Errand) {
			w.Done(1, deleted(e, &api.FailedBundle{Bundle: 8, Error: strings.Repeat("€", api.MaxErrandError)}))
		}
		failed, err := w.DeleteBundles(w.t.Context(), []id.Bundle{7, 8, 9})
		require.NoError(t, err)
		require.Len(t, failed, 1)
		require.LessOrEqual(t, len(failed[8].Error()), api.MaxErrandError)
		require.Equal(t, []uint64{7, 8, 9}, w.givenAll()[0].errand.GetDeleteBundles().Bundles)
		require.EqualValues(t, 1, w.attempts(resultDone))
	}, 1)
}

func TestMarkBucket(t *testing.T) {
	inWorld(t, func(w *world) {
		require.ErrorIs(t, w.MarkBucket(w.t.Context()), ErrNoAgent)
		w.mu.Lock()
		w.takers[1] = false // it has another role
		w.answer[1] = func(e *api.Errand) { w.Done(1, deleted(e)) }
		w.mu.Unlock()
		require.ErrorIs(t, w.MarkBucket(w.t.Context()), errAnswer, "an answer of another kind")
		w.mu.Lock()
		w.answer[1] = func(e *api.Errand) {
			w.Done(1, &api.ErrandDone{Id: e.Id, Result: &api.ErrandDone_MarkedBucket{MarkedBucket: &api.MarkedBucket{}}})
		}
		w.mu.Unlock()
		require.NoError(t, w.MarkBucket(w.t.Context()))
		_, err := w.DeleteBundles(w.t.Context(), []id.Bundle{7})
		require.ErrorIs(t, err, ErrNoAgent)
	})
}

func TestDispatcher_WithoutAgents(t *testing.T) {
	inWorld(t, func(w *world) {
		_, err := w.DeleteBundles(w.t.Context(), []id.Bundle{7})
		require.ErrorIs(t, err, ErrNoAgent)
	})
	_, err := New(Config{}).DeleteBundles(t.Context(), []id.Bundle{7})
	require.ErrorIs(t, err, ErrNoAgent, "before the first tenure")
}

// A silent agent has 30 s, and comes last for a minute.
func TestDispatcher_SilentAgent(t *testing.T) {
	inWorld(t, func(w *world) {
		w.leave(2) // so that the silent one is asked first
		ended := w.begin(7)
		w.join(2)
		w.obey(2, 0)
		start := time.Now()
		require.NoError(t, <-ended)
		require.Equal(t, 30*time.Second, time.Since(start))
		require.EqualValues(t, 1, w.attempts(resultSilent))
		for range 20 {
			require.NoError(t, <-w.begin(7))
		}
		for _, g := range w.givenAll()[1:] {
			require.Equal(t, id.Session(2), g.agent)
		}
		w.leave(2)
		w.obey(1, 0)
		require.NoError(t, <-w.begin(7), "it is asked if there is no other agent")
		require.Len(t, w.avoided(), 1)
		time.Sleep(avoidance)
		w.shun(3)
		require.Len(t, w.avoided(), 1, "old entries take no memory")
	}, 1, 2)
}

func (w *world) avoided() map[id.Session]time.Time { return w.Dispatcher.mu.avoid }

// A slow agent that answers within 30 s has no effect on its turn.
func TestDispatcher_SlowAgent(t *testing.T) {
	inWorld(t, func(w *world) {
		w.obey(1, 29*time.Second)
		require.NoError(t, <-w.begin(7))
		require.Len(t, w.givenAll(), 1)
		require.Empty(t, w.avoided())
	}, 1)
}

func TestDispatcher_EachAgentFails(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, a := range []id.Session{1, 2} {
			w.answer[a] = func(e *api.Errand) { w.Done(a, &api.ErrandDone{Id: e.Id, Error: "store is away"}) }
		}
		require.ErrorContains(t, <-w.begin(7), "store is away")
		require.Len(t, w.givenAll(), 2, "each is asked once")
		require.EqualValues(t, 2, w.attempts(resultFailed))
	}, 1, 2)
	inWorld(t, func(w *world) {
		for _, a := range w.ErrandTakers() {
			w.answer[a] = func(e *api.Errand) { w.Done(a, &api.ErrandDone{Id: e.Id}) }
		}
		require.ErrorIs(t, <-w.begin(7), errAnswer, "an answer without a result")
		require.Len(t, w.givenAll(), 3)
	}, 1, 2, 3, 4, 5)
}

// The errand of an agent whose stream ends goes to another agent at once, or again to the same agent on a new stream.
func TestDispatcher_AgentLeaves(t *testing.T) {
	inWorld(t, func(w *world) {
		start := time.Now()
		ended := w.begin(7)
		first := w.givenAll()[0].agent
		w.obey(3-first, 0)
		w.leave(first)
		require.NoError(t, <-ended)
		require.Zero(t, time.Since(start))
		require.EqualValues(t, 1, w.attempts(resultLeft))
	}, 1, 2)
	inWorld(t, func(w *world) {
		ended := w.begin(7)
		w.obey(1, 0)
		w.Left(1)
		require.NoError(t, <-ended, "on the new stream")
		require.Len(t, w.givenAll(), 2)
	}, 1)
	inWorld(t, func(w *world) {
		ended := w.begin(7)
		w.leave(1)
		require.ErrorIs(t, <-ended, ErrNoAgent)
	}, 1)
}

// The answers that no attempt waits for change nothing.
func TestDispatcher_DropsAnswers(t *testing.T) {
	inWorld(t, func(w *world) {
		ended := w.begin(7)
		e := w.givenAll()[0].errand
		w.Done(2, deleted(e))
		w.Done(1, &api.ErrandDone{Id: e.Id + 1, Error: "unasked for"})
		synctest.Wait()
		require.Empty(t, ended)
		require.EqualValues(t, 2, w.dropped())
		w.Done(1, deleted(e))
		w.Done(1, deleted(e))
		require.NoError(t, <-ended)
		require.EqualValues(t, 3, w.dropped(), "the second time")

		ended = w.begin(7)
		e = w.givenAll()[1].errand
		require.ErrorIs(t, <-ended, errSilent)
		w.Done(1, deleted(e))
		require.EqualValues(t, 4, w.dropped(), "the late one")
	}, 1)
}

// The ninth errand waits for a place, and so does not reach an agent.
func TestDispatcher_NinthErrandWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		var all []chan error
		for b := range id.Bundle(9) {
			all = append(all, w.begin(b+1))
		}
		errands := w.givenAll()
		require.Len(t, errands, 8)
		per := map[id.Session]int{}
		for _, g := range errands {
			per[g.agent]++
		}
		require.Equal(t, map[id.Session]int{1: 4, 2: 4}, per, "each agent has as many")
		require.EqualValues(t, 8, testutil.ToFloat64(w.metrics.open))
		require.EqualValues(t, 1, testutil.ToFloat64(w.metrics.waiting))
		ctx, cancel := context.WithCancel(w.t.Context())
		cancel()
		_, err := w.DeleteBundles(ctx, []id.Bundle{10})
		require.ErrorIs(t, err, context.Canceled, "a caller can give up")

		w.Done(errands[0].agent, deleted(errands[0].errand))
		require.NoError(t, <-all[0])
		errands = w.givenAll()
		require.Len(t, errands, 9)
		require.Equal(t, []uint64{9}, errands[8].errand.GetDeleteBundles().Bundles)
		for _, g := range errands[1:] {
			w.Done(g.agent, deleted(g.errand))
		}
		var errs []error
		for _, ended := range all[1:] {
			errs = append(errs, <-ended)
		}
		require.NoError(t, errors.Join(errs...))
		require.Zero(t, testutil.ToFloat64(w.metrics.open))
	}, 1, 2)
}

// The end of a caller ends its errand, not the one of another caller.
func TestDispatcher_CallerGivesUp(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		_, err := w.DeleteBundles(ctx, []id.Bundle{7})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualValues(t, 1, w.attempts(resultCancelled))
		require.Empty(t, w.avoided(), "the agent did nothing wrong")
	}, 1)
}
