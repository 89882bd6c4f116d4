package zonewriter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// cluster is a state, agents that say their load, and what they were told.
type cluster struct {
	t      *testing.T
	state  *metadata.State
	loads  load.Table
	plan   *Planner
	tenure *Tenure
	cancel context.CancelFunc
	wait   func()

	mu     sync.Mutex
	agents map[id.Session]*fake // open ones
	stall  chan struct{}        // while not nil, telling waits for it
}

// fake is one agent.
type fake struct {
	zone      string
	rate      float64
	takes     bool
	connected bool
	reports   bool
	draining  bool
	budget    float64 // PUTs a second; 0: an agent that knows no savings
	unused    float64
	spent     uint64
	wanted    uint32
	told      []told // on its stream
}

// newCluster returns a cluster with an owner. slows is Config.Slows.
func newCluster(t *testing.T, slows func() bool) *cluster {
	t.Helper()
	c := &cluster{t: t, state: metadata.New(), plan: New(Config{Registerer: prometheus.NewRegistry(), Slows: slows}), agents: map[id.Session]*fake{}}
	_, err := c.plan.List()
	require.ErrorIs(t, err, owner.ErrNotOwner)
	c.own()
	return c
}

// own begins a tenure.
func (c *cluster) own() {
	c.loads = load.Table{}
	c.tenure = c.plan.Tenure(&c.loads, c)
	c.tenure.Members(c.state)
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.wait = c.tenure.Start(ctx)
}

func (c *cluster) stop() {
	c.cancel()
	c.wait()
}

// TellZoneWriter implements Agents.
func (c *cluster) TellZoneWriter(agent, writer id.Session, share float64, limit uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stall := c.stall; stall != nil {
		c.mu.Unlock()
		<-stall
		c.mu.Lock()
	}
	a := c.agents[agent]
	if a == nil || !a.connected {
		return false
	}
	a.told = append(a.told, told{writer, share, limit})
	return true
}

func (c *cluster) apply(command metadata.Command) metadata.Result {
	c.t.Helper()
	var fx metadata.Effects
	batch := &metadata.Batch{Now: time.Now().UnixMilli(), Commands: []metadata.Command{command}}
	results := c.state.Apply(c.state.Index()+1, batch, &fx, nil)
	require.NoError(c.t, results[0].Err)
	for _, session := range fx.Closed {
		c.loads.Forget(session)
	}
	if fx.Members {
		c.tenure.Members(c.state)
	}
	return results[0]
}

// open has an agent open a session and say its load.
func (c *cluster) open(f fake) id.Session {
	c.t.Helper()
	result := c.apply(&metadata.OpenSession{
		Instance: fmt.Sprint(c.state.Index()), Zone: f.zone, Peer: "p:1", Roles: metadata.RoleProduce,
		Endpoints: []metadata.Endpoint{{Host: "h", Port: 1}},
	})
	session := result.Value.(metadata.OpenSessionResult).Session
	f.connected, f.reports = true, true
	c.mu.Lock()
	c.agents[session] = &f
	c.mu.Unlock()
	c.connect(session)
	return session
}

// connect gives an agent a new stream.
func (c *cluster) connect(session id.Session) {
	c.mu.Lock()
	a := c.agents[session]
	a.connected, a.told = true, nil
	c.mu.Unlock()
	c.tenure.Connected(session)
	c.report(session)
}

// change changes an agent.
func (c *cluster) change(session id.Session, fn func(a *fake)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fn(c.agents[session])
}

func (c *cluster) report(session id.Session) {
	c.mu.Lock()
	a := *c.agents[session]
	c.mu.Unlock()
	if a.reports && a.connected && !a.draining {
		report := &api.Load{
			ProduceBytesPerSecond: a.rate, TakesBatches: a.takes, PutBudget: a.budget, PutsUnused: a.unused, PutsBySavings: a.spent,
			PutsWanted: a.wanted,
		}
		c.loads.Heard(session, report, time.Now())
		c.tenure.Heard(session, report)
	}
}

func (c *cluster) close(session id.Session) {
	c.t.Helper()
	c.mu.Lock()
	delete(c.agents, session)
	c.mu.Unlock()
	c.apply(&metadata.CloseSession{Session: session})
}

// pass lets time pass while the agents report.
func (c *cluster) pass(seconds int) {
	for range seconds {
		time.Sleep(time.Second)
		for _, session := range c.sessions() {
			c.report(session)
		}
		synctest.Wait()
	}
}

func (c *cluster) sessions() (all []id.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for session := range c.agents {
		all = append(all, session)
	}
	slices.Sort(all)
	return all
}

func (c *cluster) last(session id.Session) told {
	c.mu.Lock()
	defer c.mu.Unlock()
	if all := c.agents[session].told; len(all) > 0 {
		return all[len(all)-1]
	}
	return told{}
}

// TestTenure_Histories: whatever happens, agents are told what the plan has, and never a writer that is gone, drains, was
// silent or is in another zone.
func TestTenure_Histories(t *testing.T) {
	for seed := range uint64(25) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, nil)
			r := rand.New(rand.NewPCG(seed, 9))
			for range 120 {
				c.happen(r)
				synctest.Wait()
				c.checkWriters()
				if r.IntN(4) == 0 {
					for _, session := range c.sessions() {
						c.change(session, func(a *fake) { a.reports, a.connected = true, true })
					}
					c.pass(5)
					c.checkTold()
				}
			}
			c.stop()
		})
	}
}

func (c *cluster) happen(r *rand.Rand) {
	c.t.Helper()
	all := c.sessions()
	what := r.IntN(10)
	if len(all) < 2 {
		what = 0
	}
	zones := []string{"a", "b", ""}
	switch what {
	case 0, 1:
		c.open(fake{zone: zones[r.IntN(3)], rate: r.Float64() * 60 * mib, takes: r.IntN(6) > 0})
	case 2:
		c.close(all[r.IntN(len(all))])
	case 3:
		session := all[r.IntN(len(all))]
		c.change(session, func(a *fake) { a.draining = true })
		c.apply(&metadata.DrainSession{Session: session})
		c.loads.Forget(session)
	case 4:
		c.change(all[r.IntN(len(all))], func(a *fake) { a.connected = false })
		c.pass(r.IntN(4))
	case 5:
		c.connect(all[r.IntN(len(all))])
	case 6:
		c.change(all[r.IntN(len(all))], func(a *fake) { a.reports = false })
		c.pass(r.IntN(4))
	case 7:
		c.change(all[r.IntN(len(all))], func(a *fake) { a.rate, a.takes = r.Float64()*120*mib, r.IntN(6) > 0 })
	case 8:
		c.stop()
		c.own()
		for _, session := range all {
			if c.agents[session].connected {
				c.connect(session)
			}
		}
	default:
		c.pass(r.IntN(15))
	}
}

// checkWriters asserts that no plan names a writer that could not write.
func (c *cluster) checkWriters() {
	c.t.Helper()
	infos, err := c.plan.List()
	require.NoError(c.t, err)
	shares := map[string]float64{}
	for _, info := range infos {
		if info.Kind == 0 {
			continue
		}
		if info.Kind != Hands {
			shares[info.Zone] += info.Share
			continue
		}
		w := c.agents[info.Writer]
		require.NotNil(c.t, w, "agent %d: writer %d is gone", info.Session, info.Writer)
		require.False(c.t, w.draining)
		require.Equal(c.t, info.Zone, w.zone)
	}
	for zone, sum := range shares {
		require.InDelta(c.t, 1, sum, 1e-9, "zone %q", zone)
	}
}

// checkTold asserts that everybody was told what the plan has.
func (c *cluster) checkTold() {
	c.t.Helper()
	infos, err := c.plan.List()
	require.NoError(c.t, err)
	for _, info := range infos {
		require.NotZero(c.t, info.Kind, "every agent has a place")
		require.Equal(c.t, told{info.Writer, info.Share, 0}, c.last(info.Session))
		w := c.agents[info.Writer]
		require.Equal(c.t, info.Kind == Apart, !c.agents[info.Session].takes)
		require.True(c.t, w == c.agents[info.Session] || w.takes)
	}
}

// A process that stood still takes nobody for silent.
func TestTenure_ForgivesLostTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		for range 3 {
			c.open(fake{zone: "a", rate: mib, takes: true})
		}
		c.pass(2)
		before := c.last(1)
		require.InDelta(t, 1, before.share, 0)
		c.mu.Lock()
		c.stall = make(chan struct{})
		c.mu.Unlock()
		c.connect(2)
		time.Sleep(20 * time.Second) // the loop waits where it tells
		close(c.stall)
		c.mu.Lock()
		c.stall = nil
		c.mu.Unlock()
		c.pass(10)
		for _, session := range c.sessions() {
			require.Equal(t, before, c.last(session))
			require.Len(t, c.agents[session].told, 1)
		}
		c.stop()
	})
}

func TestTenure_CountsWhyPlansChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		m := c.plan.metrics
		counts := func() (out [3]float64) {
			for i, reason := range []string{reasonMembers, reasonReports, reasonRates} {
				out[i] = testutil.ToFloat64(m.changes.WithLabelValues(reason))
			}
			return out
		}
		first := c.open(fake{zone: "a", rate: mib, takes: true})
		second := c.open(fake{zone: "a", rate: mib, takes: true})
		synctest.Wait()
		base := counts()
		require.Positive(t, base[0])
		require.InDelta(t, 1, testutil.ToFloat64(m.writers.WithLabelValues("a")), 0)

		c.change(second, func(a *fake) { a.takes = false })
		c.pass(2)
		require.Equal(t, [3]float64{base[0], base[1] + 1, 0}, counts())
		require.InDelta(t, 2, testutil.ToFloat64(m.writers.WithLabelValues("a")), 0)
		c.change(second, func(a *fake) { a.takes = true })
		c.pass(2)
		for _, session := range []id.Session{first, second} {
			c.change(session, func(a *fake) { a.rate = 60 * mib })
		}
		c.pass(30)
		after := counts()
		require.Equal(t, [2]float64{base[0], base[1] + 2}, [2]float64(after[:2]))
		require.Positive(t, after[2])
		infos, err := c.plan.List()
		require.NoError(t, err)
		require.InDelta(t, 60, infos[0].Rate/mib, 5)
		require.InDelta(t, 0, *infos[0].Silence, 0.01, "it has just reported")
		require.Equal(t, "fills bundles", infos[0].Kind.String())

		c.stop()
		require.Zero(t, testutil.CollectAndCount(m.writers))
		_, err = c.plan.List()
		require.ErrorIs(t, err, owner.ErrNotOwner)
	})
}

func TestMetrics_ShowSoManyZones(t *testing.T) {
	m := newMetrics(nil)
	plans := map[string]Plan{}
	for i := range 3 * maxShown {
		plans[fmt.Sprint(i)] = Plan{}
	}
	m.show(plans, savings{})
	require.Equal(t, maxShown, testutil.CollectAndCount(m.writers))
	m.show(map[string]Plan{"a": {}}, savings{})
	require.Equal(t, 1, testutil.CollectAndCount(m.writers))
}

// Plans follow falling rates every 10 s only.
func TestTenure_FollowsFallingRatesNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		for range 6 {
			c.open(fake{zone: "a", rate: 60 * mib, takes: true})
		}
		c.pass(30)
		for _, session := range c.sessions() {
			c.change(session, func(a *fake) { a.rate = mib })
		}
		rates := c.plan.metrics.changes.WithLabelValues(reasonRates)
		changes := 0
		for range 60 {
			before := testutil.ToFloat64(rates)
			c.pass(1)
			if testutil.ToFloat64(rates) > before {
				changes++
				require.Less(t, time.Since(c.tenure.mu.planned), 2*tick)
			}
		}
		require.Positive(t, changes)
		require.Equal(t, 1, c.tenure.mu.plans["a"].Writers())
		c.stop()
	})
}

// Agents that only fetch, or only run jobs, write nothing and are nobody's writers.
func TestTenure_LeavesOutWhoDoesNotProduce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.open(fake{zone: "a", takes: true})
		c.apply(&metadata.OpenSession{Instance: "f", Zone: "a", Peer: "p:1", Roles: metadata.RoleFetch})
		c.apply(&metadata.OpenSession{Instance: "j", Zone: "a", Peer: "p:1", Roles: metadata.RoleJobs})
		c.pass(5)
		infos, err := c.plan.List()
		require.NoError(t, err)
		require.Len(t, infos, 1)
		require.Equal(t, told{1, 1, 0}, c.last(1))
		c.stop()
	})
}
