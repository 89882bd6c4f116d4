package session_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/session"
)

// API keys of the requests below.
const (
	instantKey int16 = 100 // answered within Start
	parkedKey  int16 = 101 // answered when released
	waitingKey int32 = 102 // likewise; waits for other clients
)

// scripted answers requests with their body. It notes the order in which they were begun.
type scripted struct {
	mu     sync.Mutex
	begun  []string
	parked map[string]func([]byte, error)
}

func newScripted() *scripted { return &scripted{parked: map[string]func([]byte, error){}} }

func (s *scripted) Start(_ context.Context, f *api.Forward, reply func([]byte, error)) {
	s.mu.Lock()
	s.begun = append(s.begun, string(f.Body))
	if f.ApiKey != int32(instantKey) {
		s.parked[string(f.Body)] = reply
	}
	s.mu.Unlock()
	if f.ApiKey == int32(instantKey) {
		reply(f.Body, nil)
	}
}

func (s *scripted) release(name string) {
	s.mu.Lock()
	reply := s.parked[name]
	delete(s.parked, name)
	s.mu.Unlock()
	reply([]byte(name), nil)
}

func (s *scripted) order() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.begun)
}

// scriptedWorld is a world of replicas of which the first is the owner, and one agent that has opened.
func scriptedWorld(t *testing.T, limits session.Limits, replicas ...string) (*world, []*node, *agent, *scripted) {
	t.Helper()
	w, s := newWorld(t), newScripted()
	w.limits = limits
	w.forwards = func(*owner.Owner, session.Spawn) session.Forwards { return s }
	var nodes []*node
	for _, name := range replicas {
		nodes = append(nodes, w.start(name))
		w.waitFor("ownership", func() bool { return nodes[0].Owner() != nil })
	}
	a := w.agent()
	a.opened()
	return w, nodes, a, s
}

// ask forwards a request named by its body and gives the answer's body when it comes.
func (a *agent) ask(key int16, connection uint64, name string) <-chan string {
	answer := make(chan string, 1)
	go func() {
		defer close(answer)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if body, err := a.Forward(ctx, client.Forward{Key: key, Connection: connection, Body: []byte(name)}); err == nil {
			answer <- string(body)
		}
	}()
	synctest.Wait()
	return answer
}

func TestForwards_KeepTheOrderOfAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n, a, s := scriptedWorld(t, session.Limits{}, "r1")
		first := a.ask(parkedKey, 1, "a1")
		second, third := a.ask(instantKey, 1, "a2"), a.ask(parkedKey, 1, "a3")
		require.Equal(t, "b1", <-a.ask(instantKey, 2, "b1"), "other connections go on")
		require.Equal(t, []string{"a1", "b1"}, s.order())
		s.release("a1")
		require.Equal(t, "a1", <-first)
		require.Equal(t, "a2", <-second)
		synctest.Wait()
		require.Equal(t, []string{"a1", "b1", "a2", "a3"}, s.order())
		s.release("a3")
		require.Equal(t, "a3", <-third)
		a.leave()
		w.stop(n[0])
	})
}

// Members that wait for a rebalance must never keep out the request that ends it.
func TestForwards_WaitingOnesLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n, a, s := scriptedWorld(t, session.Limits{Forwards: 1, Waiting: 2}, "r1")
		joins := []<-chan string{a.ask(int16(waitingKey), 1, "j1"), a.ask(int16(waitingKey), 2, "j2")}
		a.ask(int16(waitingKey), 3, "j3")
		require.Equal(t, []string{"j1", "j2"}, s.order(), "the third is kept out for now")
		parked := a.ask(parkedKey, 4, "p")
		held := a.ask(instantKey, 5, "i")
		require.Equal(t, []string{"j1", "j2", "p"}, s.order(), "and so is the second of the others")
		s.release("p")
		require.Equal(t, "p", <-parked)
		require.Equal(t, "i", <-held, "asked again, it finds room")
		s.release("j1")
		require.Equal(t, "j1", <-joins[0])
		time.Sleep(time.Second) // sleeps: in the bubble
		require.Equal(t, []string{"j1", "j2", "p", "i", "j3"}, s.order())
		s.release("j2")
		s.release("j3")
		a.leave()
		w.stop(n[0])
	})
}

// A request that may be asked only once has no answer where the stream ended before that came. One that was not asked yet
// waits for an owner as others do.
func TestForwards_AskedOnceHaveNoAnswerFromTheNextOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n, a, s := scriptedWorld(t, session.Limits{}, "r1", "r2")
		ask := func(connection uint64, name string) <-chan error {
			outcome := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				defer cancel()
				_, err := a.Forward(ctx, client.Forward{Key: parkedKey, Connection: connection, Body: []byte(name), Once: true})
				outcome <- err
			}()
			synctest.Wait()
			return outcome
		}
		begun := ask(1, "begun")
		again := a.ask(parkedKey, 2, "again")
		w.stop(n[0])
		require.ErrorIs(t, <-begun, client.ErrUnavailable)
		unasked := ask(3, "unasked")
		w.waitFor("the next owner", func() bool { return len(s.order()) == 4 })
		require.Equal(t, []string{"begun", "again", "again", "unasked"}, s.order())
		s.release("again")
		require.Equal(t, "again", <-again)
		s.release("unasked")
		require.NoError(t, <-unasked)
		a.leave()
		w.stop(n[1])
	})
}

// A request parked under one owner is asked again under the next, in its connection's order.
func TestForwards_ParkedOnesMoveToTheNextOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n, a, s := scriptedWorld(t, session.Limits{}, "r1", "r2")
		first, second := a.ask(int16(waitingKey), 1, "a1"), a.ask(instantKey, 1, "a2")
		require.Equal(t, []string{"a1"}, s.order())
		late := s.parked["a1"]
		w.stop(n[0])
		w.waitFor("the next owner", func() bool { return len(s.order()) == 2 })
		late([]byte("late"), nil) // to a stream that has ended
		require.Equal(t, []string{"a1", "a1"}, s.order(), "a2 is not begun before a1 has its answer")
		s.release("a1")
		require.Equal(t, "a1", <-first)
		require.Equal(t, "a2", <-second)
		a.leave()
		w.stop(n[1])
	})
}

// The bodies of requests have a bound over all agents. Requests that wait for other clients leave half of it to others, and small ones never wait.
func TestForwards_BoundOfBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n, a, s := scriptedWorld(t, session.Limits{ForwardBytes: 100_000}, "r1")
		other := w.agent()
		other.opened()
		body := func(name string, size int) string { return name + strings.Repeat(".", size-len(name)) }
		begun := func() (names []string) {
			for _, b := range s.order() {
				names = append(names, strings.TrimRight(b, "."))
			}
			return names
		}
		join := a.ask(int16(waitingKey), 1, body("j1", 50_000))
		second := other.ask(int16(waitingKey), 1, body("j2", 5_000))
		require.Equal(t, []string{"j1"}, begun(), "half of the bound is taken")
		parked := other.ask(parkedKey, 2, body("p", 50_000))
		held := a.ask(parkedKey, 3, body("h", 5_000))
		require.Equal(t, body("small", 4096), <-a.ask(instantKey, 4, body("small", 4096)))
		require.Equal(t, []string{"j1", "p", "small"}, begun())
		s.release(body("p", 50_000))
		require.Len(t, <-parked, 50_000)
		time.Sleep(time.Second) // sleeps: in the bubble
		require.Equal(t, []string{"j1", "p", "small", "h"}, begun(), "asked again")
		s.release(body("j1", 50_000))
		require.Len(t, <-join, 50_000)
		time.Sleep(time.Second) // sleeps: in the bubble
		s.release(body("j2", 5_000))
		s.release(body("h", 5_000))
		require.Len(t, <-second, 5_000)
		require.Len(t, <-held, 5_000)
		a.leave()
		other.leave()
		w.stop(n[0])
	})
}

// TestForwards_BoundsOfNumber fills both default bounds of an agent. The next request of each kind waits until an answer makes room, and requests of
// another agent do not.
func TestForwards_BoundsOfNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limits session.Limits
		limits.ApplyDefaults()
		require.Equal(t, 4096, limits.Forwards)
		require.Equal(t, 65_536, limits.Waiting)
		w, n, a, s := scriptedWorld(t, limits, "r1")
		other := w.agent()
		other.opened()
		ctx, cancel := context.WithCancel(t.Context())
		connections := uint64(0)
		ask := func(a *agent, key int16, number int) {
			for range number {
				connections++
				f := client.Forward{Key: key, Connection: connections, Body: fmt.Append(nil, connections)}
				go func() { _, _ = a.Forward(ctx, f) }()
			}
			synctest.Wait()
		}
		ask(a, parkedKey, limits.Forwards+1)
		require.Len(t, s.order(), limits.Forwards)
		ask(a, int16(waitingKey), limits.Waiting+1)
		require.Len(t, s.order(), limits.Forwards+limits.Waiting)
		ask(other, parkedKey, 1)
		ask(other, int16(waitingKey), 1)
		begun := limits.Forwards + limits.Waiting + 2
		require.Len(t, s.order(), begun)
		s.release(s.order()[0])
		s.release(s.order()[limits.Forwards])
		w.waitFor("the requests beyond the bounds", func() bool { return len(s.order()) == begun+2 })
		cancel()
		synctest.Wait()
		a.leave()
		other.leave()
		w.stop(n[0])
	})
}
