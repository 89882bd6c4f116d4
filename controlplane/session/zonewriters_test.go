package session_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/controlplane/zonewriter"
	"github.com/freshet-io/freshet/metadata/id"
)

const mib = 1 << 20

func (w *world) withZoneWriters() {
	w.writers = func(l *load.Table, a session.ZoneAgents) session.ZoneWriters {
		return zonewriter.New(zonewriter.Config{}).Tenure(l, a)
	}
}

// assigned is what an agent was told of its writer.
type assigned struct {
	writer id.Session
	share  float64
}

// writing is an agent that knows zone writers.
type writing struct {
	*agent
	reporter

	mu     sync.Mutex
	told   []assigned
	times  []time.Time
	writer id.Session // told last
	limit  uint64     // of PUTs by savings, likewise
}

func (r *writing) OnZoneWriter(m *api.ZoneWriter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, assigned{id.Session(m.Session), m.PutShare})
	r.times = append(r.times, time.Now())
	r.writer, r.limit = id.Session(m.Session), m.SavingsLimit
}

func (r *writing) savingsLimit() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.limit
}

func (r *writing) lastWriter() id.Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writer
}

// now is what the agent was told last, zero if nothing.
func (r *writing) now() assigned {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.told) == 0 {
		return assigned{}
	}
	return r.told[len(r.told)-1]
}

// clear forgets what the agent was told and gives how often that was.
func (r *writing) clear() (times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	times = len(r.told)
	r.told, r.times = nil, nil
	return times
}

// writing starts an agent and waits until its session is open.
func (w *world) writing(zone string, mibPerSecond float64) *writing {
	w.t.Helper()
	r := &writing{}
	r.report(mibPerSecond * mib)
	w.agent(func(c *client.Config) {
		r.agent = c.Handler.(*agent)
		c.Handler, c.Zone, c.Peer = r, zone, "agent:7070"
		c.Load = func() *api.Load {
			l := r.load.Load()
			if l != nil {
				l = proto.Clone(l).(*api.Load)
				l.ZoneWriter = uint32(r.lastWriter())
			}
			return l
		}
	})
	r.opened()
	return r
}

func (w *world) manyWriting(n int, zone string, mibPerSecond float64) (all []*writing) {
	w.t.Helper()
	for range n {
		all = append(all, w.writing(zone, mibPerSecond))
	}
	synctest.Wait()
	return all
}

// split tells the one writer of agents from the others, and checks that all of them agree.
func split(t *testing.T, agents []*writing, share float64) (writer *writing, others []*writing) {
	t.Helper()
	for _, a := range agents {
		require.Equal(t, assigned{agents[0].now().writer, share}, a.now())
		if a.ID() == a.now().writer {
			writer = a
		} else {
			others = append(others, a)
		}
	}
	require.NotNil(t, writer, "the writer is one of them")
	return writer, others
}

func leaveAll(agents ...*writing) {
	for _, a := range agents {
		a.leave()
	}
}

func TestZoneWriters_OneOfEachZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.withZoneWriters()
		n := w.start("a")
		a, b := w.manyWriting(3, "a", 1), w.manyWriting(2, "b", 2)
		writerA, _ := split(t, a, 1)
		writerB, _ := split(t, b, 1)
		require.NotEqual(t, writerA, writerB)
		time.Sleep(time.Minute)
		for _, one := range slices.Concat(a, b) {
			require.Equal(t, 1, one.clear(), "told once, and again only when it changes")
		}
		leaveAll(a...)
		leaveAll(b...)
		w.stop(n)
	})
}

// A writer that drains or says goodbye is replaced at once.
func TestZoneWriters_ReplaceWhoGoes(t *testing.T) {
	for name, goes := range map[string]func(t *testing.T, a *writing){
		"drained": func(t *testing.T, a *writing) { t.Helper(); require.NoError(t, a.Drain(t.Context())) },
		"closed":  func(t *testing.T, a *writing) { t.Helper(); require.NoError(t, a.Goodbye(t.Context())) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.withZoneWriters()
				n := w.start("a")
				agents := w.manyWriting(4, "a", 1)
				writer, others := split(t, agents, 1)
				for _, a := range agents {
					a.clear()
				}
				began := time.Now()
				goes(t, writer)
				synctest.Wait()
				next, _ := split(t, others, 1)
				require.NotEqual(t, writer, next)
				require.Zero(t, time.Since(began), "no timer is waited for")
				time.Sleep(20 * time.Second)
				require.Zero(t, writer.clear(), "nobody tells it anything")
				for _, a := range others {
					require.Equal(t, 1, a.clear())
				}
				leaveAll(agents...)
				w.stop(n)
			})
		})
	}
}

// A writer that is killed says nothing any more: others stop handing over to it before its session is closed.
func TestZoneWriters_ReplaceTheSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.SessionTimeout = 20 * time.Second
		w.withZoneWriters()
		n := w.start("a")
		agents := w.manyWriting(3, "a", 1)
		writer, others := split(t, agents, 1)
		writer.leave()
		time.Sleep(2 * time.Second)
		split(t, agents, 1) // not yet
		time.Sleep(5 * time.Second)
		next, _ := split(t, others, 0.5)
		require.NotEqual(t, writer, next)
		time.Sleep(20 * time.Second)
		again, _ := split(t, others, 1)
		require.Equal(t, next, again, "the whole budget, now that its session is closed")
		leaveAll(others...)
		w.stop(n)
	})
}

// An agent whose reports stop, or that takes no batches any more, writes its own and gets nobody else's.
func TestZoneWriters_FollowReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.withZoneWriters()
		n := w.start("a")
		agents := w.manyWriting(3, "a", 1)
		first, others := split(t, agents, 1)
		first.load.Store(nil)
		time.Sleep(8 * time.Second)
		second, rest := split(t, others, 0.5)
		require.Equal(t, assigned{first.ID(), 0.5}, first.now(), "it is connected, and told so")
		second.load.Store(&api.Load{ProduceBytesPerSecond: mib})
		time.Sleep(2 * time.Second)
		require.Equal(t, assigned{rest[0].ID(), 1.0 / 3}, rest[0].now())
		require.Equal(t, assigned{second.ID(), 1.0 / 3}, second.now())
		first.report(mib)
		second.report(mib)
		time.Sleep(2 * time.Second)
		last, _ := split(t, agents, 1)
		require.Equal(t, rest[0], last, "who writes goes on")
		leaveAll(agents...)
		w.stop(n)
	})
}

func TestZoneWriters_FollowRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.withZoneWriters()
		n := w.start("a")
		agents := w.manyWriting(4, "a", 1)
		writer, _ := split(t, agents, 1)
		for _, a := range agents {
			a.report(60 * mib)
		}
		time.Sleep(5 * time.Second)
		require.Less(t, writer.now().share, 1.0, "more writers as soon as they are needed")
		time.Sleep(25 * time.Second)
		for _, a := range agents {
			require.Equal(t, assigned{a.ID(), 0.25}, a.now(), "each fills bundles by itself")
			a.report(mib)
		}
		time.Sleep(time.Minute)
		split(t, agents, 1)
		for _, a := range agents {
			require.LessOrEqual(t, a.clear(), 10)
		}
		leaveAll(agents...)
		w.stop(n)
	})
}

// Agents of before there were zone writers are told nothing, write their own, and have their part of the budget.
func TestZoneWriters_LeaveOldAgentsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.withZoneWriters()
		n := w.start("a")
		old := &writing{}
		w.agent(func(c *client.Config) {
			old.agent = c.Handler.(*agent)
			c.Handler, c.Peer = old, "old:7070"
		})
		old.opened()
		agents := w.manyWriting(2, "a", 1)
		time.Sleep(5 * time.Second)
		split(t, agents, 0.5)
		require.NoError(t, old.Goodbye(t.Context()))
		synctest.Wait()
		split(t, agents, 1)
		require.Zero(t, old.clear())
		old.leave()
		leaveAll(agents...)
		w.stop(n)
	})
}

// An agent that nobody can reach takes no batches, whatever it says.
func TestZoneWriters_NeedAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.withZoneWriters()
		n := w.start("a")
		agents := w.manyWriting(1, "a", 1)
		hidden := &writing{}
		hidden.report(mib)
		w.agent(func(c *client.Config) {
			hidden.agent = c.Handler.(*agent)
			c.Handler = hidden
			hidden.configure(c)
		})
		hidden.opened()
		synctest.Wait()
		require.Equal(t, assigned{hidden.ID(), 0.5}, hidden.now())
		require.Equal(t, assigned{agents[0].ID(), 0.5}, agents[0].now())
		hidden.leave()
		leaveAll(agents...)
		w.stop(n)
	})
}

// What an agent was told is told again on a new stream, once.
func TestZoneWriters_AreToldOnEachStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.SessionTimeout = time.Minute
		w.withZoneWriters()
		n := w.start("a")
		agents := w.manyWriting(3, "a", 1)
		split(t, agents, 1)
		w.loseConnections()
		time.Sleep(20 * time.Second)
		split(t, agents, 1)
		for _, a := range agents {
			require.Equal(t, 2, a.welcomes)
			require.GreaterOrEqual(t, a.clear(), 2)
		}
		time.Sleep(20 * time.Second)
		for _, a := range agents {
			require.Zero(t, a.clear())
		}
		leaveAll(agents...)
		w.stop(n)
	})
}

// A new owner changes nothing before it knows the agents' loads: here those of four writers.
func TestZoneWriters_SurviveOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.withZoneWriters()
		first := w.start("a")
		w.waitFor("ownership", func() bool { return first.Owner() != nil })
		second := w.start("b")
		agents := w.manyWriting(4, "a", 60)
		time.Sleep(30 * time.Second)
		for _, a := range agents {
			require.Equal(t, assigned{a.ID(), 0.25}, a.now())
			a.clear()
		}
		w.stop(first)
		time.Sleep(20 * time.Second)
		for _, a := range agents {
			require.Equal(t, assigned{a.ID(), 0.25}, a.now())
			require.Equal(t, 1, a.clear(), "on the new stream, and nothing else before it")
		}
		leaveAll(agents...)
		w.stop(second)
	})
}

// A new owner goes on from what the agents were told: the plan depends on who came first, and it was not there.
func TestZoneWriters_NextOwnerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.withZoneWriters()
		first := w.start("a")
		w.waitFor("ownership", func() bool { return first.Owner() != nil })
		second := w.start("b")
		agents := w.manyWriting(2, "a", 1)
		writer, _ := split(t, agents, 1)
		for planned(agents) == writer.ID() { // until somebody comes who would have been chosen
			require.Less(t, len(agents), 30)
			agents = append(agents, w.manyWriting(1, "a", 1)...)
		}
		w.stop(first)
		time.Sleep(20 * time.Second)
		again, _ := split(t, agents, 1)
		require.Equal(t, writer, again)
		leaveAll(agents...)
		w.stop(second)
	})
}

// planned is the writer of agents that nobody had a plan for.
func planned(agents []*writing) id.Session {
	var zone []zonewriter.Agent
	for _, a := range agents {
		zone = append(zone, zonewriter.Agent{Session: a.ID(), Rate: mib, Takes: true})
	}
	return zonewriter.Assign(zone, zonewriter.Plan{}, zonewriter.Rates{}).Of[agents[0].ID()].Writer
}

// An owner change and a death at once: the new owner waits for the dead agent for 3 s, and tells nobody anything before.
func TestZoneWriters_NewOwnerWaitsForTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.SessionTimeout = 20 * time.Second
		w.withZoneWriters()
		first := w.start("a")
		w.waitFor("ownership", func() bool { return first.Owner() != nil })
		second := w.start("b")
		agents := w.manyWriting(3, "a", 1)
		writer, others := split(t, agents, 1)
		for _, a := range agents {
			a.clear()
		}
		writer.leave()
		w.stop(first)
		w.waitFor("another owner", func() bool { return second.sessions.Loads() != nil })
		began := time.Now()
		time.Sleep(10 * time.Second)
		next, _ := split(t, others, 0.5)
		require.NotEqual(t, writer, next)
		for _, a := range others {
			require.Len(t, a.times, 1)
			require.InDelta(t, 3.5, a.times[0].Sub(began).Seconds(), 0.6)
		}
		leaveAll(others...)
		w.stop(second)
	})
}
