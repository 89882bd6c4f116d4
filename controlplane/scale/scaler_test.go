package scale

import (
	"encoding/json"
	"fmt"
	"math"
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
	"github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plane is an owner, and what agents tell it, in a bubble.
type plane struct {
	t *testing.T
	*Scaler
	registry *prometheus.Registry
	table    *load.Table // of the tenure

	mu     sync.Mutex
	state  *metadata.State
	fenced bool
	silent map[id.Session]bool
	loads  map[id.Session]*api.Load
	zones  map[id.Session]string
}

// owned runs fn beside a Scaler of an owner.
func owned(t *testing.T, fn func(p *plane)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &plane{
			t: t, registry: prometheus.NewPedanticRegistry(), state: metadata.New(),
			silent: map[id.Session]bool{}, loads: map[id.Session]*api.Load{}, zones: map[id.Session]string{},
		}
		var err error
		p.Scaler, err = New(Settings{}, p.registry)
		require.NoError(t, err)
		_, err = p.List()
		require.ErrorIs(t, err, owner.ErrNotOwner, "before the tenure")
		p.tenure(func() { fn(p) })
		_, err = p.List()
		require.ErrorIs(t, err, owner.ErrNotOwner, "after it")
		p.shows("")
	})
}

// tenure runs fn while this replica is the owner.
func (p *plane) tenure(fn func()) {
	p.table = &load.Table{}
	end := p.Start(p, func() *load.Table { return p.table })
	fn()
	end()
}

// Read implements Owner.
func (p *plane) Read(fn func(*metadata.State)) (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fenced {
		return 0, owner.ErrNotOwner
	}
	fn(p.state)
	return p.state.Index(), nil
}

func (p *plane) apply(c metadata.Command) metadata.Result {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.state.Apply(p.state.Index()+1, &metadata.Batch{Now: time.Now().UnixMilli(), Commands: []metadata.Command{c}}, nil, nil)[0]
	require.NoError(p.t, r.Err)
	return r
}

// agent opens the session of one that serves clients, and runs jobs.
func (p *plane) agent(zone string, roles metadata.Roles, cpu float64) id.Session {
	p.t.Helper()
	r := p.apply(&metadata.OpenSession{
		Instance: fmt.Sprint("agent ", len(p.loads)), Zone: zone, Roles: roles, Endpoints: []metadata.Endpoint{{Host: "h", Port: 1}},
	})
	session := r.Value.(metadata.OpenSessionResult).Session
	p.loads[session], p.zones[session] = &api.Load{Cpu: cpu}, zone
	return session
}

const serves = metadata.RoleProduce | metadata.RoleFetch

// pass lets seconds pass, in which agents tell their loads.
func (p *plane) pass(seconds int) {
	for range seconds {
		for session, l := range p.loads {
			if !p.silent[session] {
				p.table.Heard(session, l, time.Now())
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
	}
}

func (p *plane) list() []Info {
	p.t.Helper()
	list, err := p.List()
	require.NoError(p.t, err)
	return list
}

// shows compares what is exported, without help and types.
func (p *plane) shows(want string) {
	p.t.Helper()
	n := 0
	for _, name := range []string{"freshet_zone_agents", "freshet_zone_desired_replicas", "freshet_zone_load", "freshet_zone_utilization_ratio"} {
		count, err := testutil.GatherAndCount(p.registry, name)
		require.NoError(p.t, err)
		n += count
	}
	if want == "" {
		require.Zero(p.t, n, "a replica that is not the owner exports no figures")
		return
	}
	families, err := p.registry.Gather()
	require.NoError(p.t, err)
	var lines []string
	for _, f := range families {
		for _, m := range f.Metric {
			lines = append(lines, fmt.Sprintf("%s{%s} %v", strings.TrimPrefix(f.GetName(), "freshet_zone_"), m.Label[0].GetValue(), m.GetGauge().GetValue()))
		}
	}
	require.Equal(p.t, want, strings.Join(lines, "\n"))
}

func TestScaler_FiguresOfZones(t *testing.T) {
	owned(t, func(p *plane) {
		require.Empty(p.t, p.list(), "no zones yet")
		p.agent("a", serves, 0.85)
		draining := p.agent("a", serves|metadata.RoleJobs, 0.85)
		p.agent("a", metadata.RoleJobs, 0.99) // clients are not sent to it
		b := p.agent("b", serves, 0.6)
		p.silent[b] = true
		p.pass(2)
		p.shows("agents{a} 2\nagents{b} 1\ndesired_replicas{a} 3\nload{a} 1.7\nutilization_ratio{a} 0.85")
		list := p.list()
		require.Len(p.t, list, 2)
		require.Len(p.t, list[0].Loads, 2)
		text, err := json.Marshal(list[1])
		require.NoError(p.t, err)
		require.JSONEq(p.t, `{"zone":"b","desired_replicas":null,"agents":1,"utilization":0,"load":0,"loads":[]}`, string(text))

		delete(p.silent, b)
		p.apply(&metadata.DrainSession{Session: draining})
		p.pass(2)
		p.shows("agents{a} 1\nagents{b} 1\ndesired_replicas{a} 2\ndesired_replicas{b} 1\nload{a} 0.85\nload{b} 0.6\nutilization_ratio{a} 0.85\nutilization_ratio{b} 0.6")
	})
}

func TestInfo_Compute(t *testing.T) {
	for _, c := range []struct {
		agents int
		loads  []float64
		want   int
	}{
		{1, []float64{0.6}, 1},
		{1, []float64{0.61}, 2},
		{3, []float64{0.6, 0.6, 0.6}, 3},
		{3, []float64{0.8, 0.7, 0.6}, 4},
		{3, []float64{0, 0, 0}, 1},
		{3, []float64{0.85, 0.85, 0}, 3}, // one has just joined
		{3, []float64{0.8, 0.8}, 4},      // one is silent
	} {
		info := Info{Agents: c.agents}
		for _, u := range c.loads {
			info.Loads = append(info.Loads, Load{Utilization: u})
		}
		info.compute(0.6)
		require.Equal(t, c.want, *info.Desired, "%+v", c)
	}
}

// A new owner that has heard some agents of a zone only would see less load than there is.
func TestScaler_NewOwnerWaitsForAllAgents(t *testing.T) {
	owned(t, func(p *plane) {
		p.agent("a", serves, 0.85)
		late := p.agent("a", serves, 0.85)
		p.agent("b", serves, 0.6)
		p.silent[late] = true
		p.pass(2)
		p.shows("agents{a} 2\nagents{b} 1\ndesired_replicas{b} 1\nload{b} 0.6\nutilization_ratio{b} 0.6")
		p.pass(1)
		require.Equal(p.t, 3, *p.list()[0].Desired, "after 3 s it waits no longer")
		p.silent[p.agent("b", serves, 0.1)] = true
		p.pass(1)
		require.Equal(p.t, 2, *p.list()[1].Desired, "nor for one that joins later")
	})
}

// Without any report there is no figure, so that autoscalers change nothing.
func TestScaler_SilentZone(t *testing.T) {
	owned(t, func(p *plane) {
		a := p.agent("a", serves, 0.85)
		p.pass(5)
		require.Equal(p.t, 2, *p.list()[0].Desired)
		p.silent[a] = true
		p.pass(6)
		require.Nil(p.t, p.list()[0].Desired)
		p.shows("agents{a} 1")
	})
}

// An owner that was cut off stops exporting by itself, whoever is the owner now.
func TestScaler_FencedOwnerExportsNothing(t *testing.T) {
	owned(t, func(p *plane) {
		p.agent("a", serves, 0.6)
		p.pass(2)
		p.shows("agents{a} 1\ndesired_replicas{a} 1\nload{a} 0.6\nutilization_ratio{a} 0.6")
		p.mu.Lock()
		p.fenced = true
		p.mu.Unlock()
		_, err := p.List()
		require.ErrorIs(p.t, err, owner.ErrNotOwner)
		p.pass(1)
		p.shows("")
		p.mu.Lock()
		p.fenced = false
		p.mu.Unlock()
		p.pass(1)
		p.shows("agents{a} 1\ndesired_replicas{a} 1\nload{a} 0.6\nutilization_ratio{a} 0.6")
	})
}

func TestScaler_ZonesComeAndGo(t *testing.T) {
	owned(t, func(p *plane) {
		a := p.agent("a", serves, 0.6)
		p.agent("b", serves, 0.6)
		p.pass(5)
		p.apply(&metadata.CloseSession{Session: a})
		delete(p.loads, a)
		p.pass(1)
		p.shows("agents{b} 1\ndesired_replicas{b} 1\nload{b} 0.6\nutilization_ratio{b} 0.6")
		require.Len(p.t, p.list(), 1)
		p.agent("a", serves, 0.3)
		p.pass(1)
		require.Equal(p.t, 1, *p.list()[0].Desired)
	})
}

// The next tenure on the same replica begins without the figures of the one before.
func TestScaler_NextTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Settings{}, prometheus.NewRegistry())
		require.NoError(t, err)
		p := &plane{t: t, Scaler: s, registry: prometheus.NewRegistry(), state: metadata.New(), loads: map[id.Session]*api.Load{}, zones: map[id.Session]string{}}
		p.tenure(func() {
			p.agent("a", serves, 0.85)
			p.pass(2)
			require.Equal(t, 2, *p.list()[0].Desired)
		})
		p.tenure(func() {
			require.Nil(t, p.list()[0].Desired)
			clear(p.loads)
			p.pass(10)
			require.Nil(t, p.list()[0].Desired, "this owner has no reports")
		})
	})
}

func TestSettings_Validate(t *testing.T) {
	for _, target := range []float64{1.2, 1, 0.01, -1, math.NaN()} {
		_, err := New(Settings{Target: target}, prometheus.NewRegistry())
		require.ErrorContains(t, err, "target utilization")
	}
}

// TestScaler_HiddenAgentsDoNotLowerTheFigure: agents whose streams broke may still run and carry load.
func TestScaler_HiddenAgentsDoNotLowerTheFigure(t *testing.T) {
	owned(t, func(p *plane) {
		var all []id.Session
		for range 10 {
			all = append(all, p.agent("a", serves, 0.55))
		}
		p.pass(4)
		before := *p.list()[0].Desired
		for _, s := range all[1:] {
			p.apply(&metadata.HideSession{Session: s, Hidden: true})
		}
		p.pass(1)
		after := p.list()[0]
		p.t.Logf("desired before %d, a second after nine agents were hidden %d", before, *after.Desired)
		require.GreaterOrEqual(p.t, *after.Desired, before)
	})
}

// TestScaler_OneAgentsReportIsBounded: one agent with a limit that is set too low does not ask for hundreds of agents.
func TestScaler_OneAgentsReportIsBounded(t *testing.T) {
	owned(t, func(p *plane) {
		for range 9 {
			p.agent("a", serves, 0.5)
		}
		p.agent("a", serves, 900)
		p.pass(4)
		p.t.Logf("desired %d", *p.list()[0].Desired)
		require.LessOrEqual(p.t, *p.list()[0].Desired, 20)
	})
}
