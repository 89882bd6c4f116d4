package sim

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/agent"
	"github.com/freshet-io/freshet/agent/peer"
	"github.com/freshet-io/freshet/controlplane/api"
	controlload "github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/internal/ledger"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// appointed are zone writers that a test names, in place of the planner. Whoever was told nothing writes itself.
type appointed struct {
	mu     sync.Mutex
	agents session.ZoneAgents
	writer map[id.Session]id.Session
}

func (p *appointed) tenure(_ *controlload.Table, a session.ZoneAgents) session.ZoneWriters {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.agents = a
	return p
}

func (p *appointed) Members(*metadata.State)             {}
func (p *appointed) Heard(id.Session, *api.Load)         {}
func (p *appointed) Start(context.Context) (wait func()) { return func() {} }
func (p *appointed) Connected(agent id.Session)          { go p.tell(agent) } // it must not be told from here

func (p *appointed) tell(agent id.Session) {
	p.mu.Lock()
	agents, writer := p.agents, p.writer[agent]
	p.mu.Unlock()
	if writer != 0 {
		agents.TellZoneWriter(agent, writer, 1, 0)
	}
}

// appoint has agents hand over to a writer, or write themselves if they are it.
func (p *appointed) appoint(writer *node, agents ...*node) {
	for _, a := range agents {
		p.mu.Lock()
		if p.writer == nil {
			p.writer = map[id.Session]id.Session{}
		}
		p.writer[a.session()] = writer.session()
		p.mu.Unlock()
		p.tell(a.session())
	}
}

// session is the agent's that is open.
func (a *node) session() (session id.Session) {
	a.c.t.Helper()
	port := a.agent.Addresses()[0].Port
	a.c.await("a session of "+a.name, func() bool {
		_, err := a.c.tenure.Load().Read(func(s *metadata.State) {
			for info := range s.Sessions() {
				if !info.Closed && info.Endpoints[0].Port == port {
					session = info.ID
				}
			}
		})
		return err == nil && session != 0
	})
	return session
}

// TestZoneWriters_Dies: the writer of a zone is killed at each point of a bundle's way, while idempotent producers send to
// the agents that hand over to it. Nothing acknowledged is lost, nothing is there twice, order stands (I1, I2, I3).
func TestZoneWriters_Dies(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(c *cluster, writer *node, ways *peerWays) (mend func()){
		"before the PUT": func(c *cluster, _ *node, _ *peerWays) func() {
			r := c.objects.MustAdd("put key~bundles stall")
			c.await("a PUT", func() bool { return r.Hits() > 0 })
			return func() { c.objects.Remove(r) }
		},
		"after the PUT": func(c *cluster, _ *node, _ *peerWays) func() {
			r := c.objects.MustAdd("put key~bundles stall-after")
			c.await("a PUT", func() bool { return r.Hits() > 0 })
			return func() { c.objects.Remove(r) }
		},
		"before the commit": func(c *cluster, writer *node, _ *peerWays) func() {
			puts := c.audit.puts.Load()
			writer.link.setDown(true)
			c.await("a PUT that cannot be committed", func() bool { return c.audit.puts.Load() > puts })
			return func() {}
		},
		"before the reply": func(c *cluster, _ *node, ways *peerWays) func() {
			puts := c.audit.puts.Load()
			ways.deaf.Store(true)
			c.await("PUTs whose outcome is not told", func() bool { return c.audit.puts.Load() > puts+1 })
			return func() { ways.deaf.Store(false) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, ways := &appointed{}, &peerWays{}
			c := newCluster(t, options{seed: 1, agents: 4, zones: 1, zoneWriters: plan.tenure, agent: ways.configure})
			writer, others := c.agents[0], c.agentList()[1:]
			plan.appoint(writer, c.agents...)
			l := c.startLoad("t", 3, 4, 20*time.Millisecond)
			l.more(200)
			c.await("batches handed over by each", func() bool { return writer.metric("freshet_zonewriter_streams") == 3 })
			l.more(200)
			mend := at(c, writer, ways)
			writer.crash()
			mend()
			l.more(300)
			plan.appoint(others[0], others...)
			c.await("another writer to take batches", func() bool { return others[0].metric("freshet_zonewriter_taken_bytes_total") > 0 })
			l.more(300)
			l.stop(ledger.Rules{})
		})
	}
}

// peerWays are the connections between agents, with what can go wrong on them.
type peerWays struct{ deaf atomic.Bool }

func (w *peerWays) configure(cfg *agent.Config) {
	cfg.Peers.Silence = 10 * time.Second
	cfg.Peers.Configure = func(p *peer.Config) {
		p.DialTimeout, p.SilenceTimeout, p.UnitTimeout, p.StallTimeout = patience, patience, patience, patience
		p.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return &deafConn{Conn: conn, ways: w}, err
		}
	}
}

// deafConn loses what comes while its ways are deaf.
type deafConn struct {
	net.Conn
	ways *peerWays
}

func (c *deafConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.ways.deaf.Load() {
			return n, err
		}
	}
}

// TestZoneWriters_Turn: under load, agents turn to another writer again and again, and back to their own. Producers
// without sequence numbers, which never try again, keep their order, and none of them gets an error (I2).
func TestZoneWriters_Turn(t *testing.T) {
	t.Parallel()
	plan := &appointed{}
	c := newCluster(t, options{seed: 1, agents: 3, zones: 1, zoneWriters: plan.tenure, patient: true})
	agents := c.agentList()
	plan.appoint(agents[0], agents...)
	l := c.startLoad("t", 3, 4, 10*time.Millisecond, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5),
		kgo.RecordRetries(0), kgo.ProduceRequestTimeout(patience))
	turns := func() int { return total(agents, "freshet_zonewriter_turns_total") }
	c.await("the others to hand over", func() bool { return agents[0].metric("freshet_zonewriter_streams") == 2 && turns() == 2 })
	for i := range 12 {
		l.more(150)
		before, writer := turns(), agents[(i+1)%3]
		switch i % 4 {
		case 3:
			for _, a := range agents {
				plan.appoint(a, a)
			}
			c.await("all to write themselves", func() bool {
				return total(agents, "freshet_zonewriter_streams") == 0 && turns() >= before+2
			})
		default:
			plan.appoint(writer, agents...)
			c.await("the others to hand over", func() bool {
				return writer.metric("freshet_zonewriter_streams") == 2 && turns() >= before+2
			})
		}
	}
	l.stop(ledger.Rules{})
	for _, a := range agents {
		require.Zero(t, a.metric("freshet_zonewriter_failures_total"), a.name)
	}
}

// TestZoneWriters_Planned: with the product's own planner, the agents of a zone have one writer at a low load. It stops in
// order, and another one writes for all.
func TestZoneWriters_Planned(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{agents: 4, zones: 1, patient: true})
	l := c.startLoad("t", 3, 4, 10*time.Millisecond)
	l.more(100)
	c.await("one writer", func() bool {
		writers := 0
		for _, a := range c.agents {
			if a.metric("freshet_zonewriter_streams") == 3 {
				writers++
			}
		}
		return writers == 1
	})
	for range 2 {
		for _, a := range c.agentList() {
			if a.metric("freshet_zonewriter_streams") > 0 {
				a.stop()
				break
			}
		}
		l.more(200)
		c.await("one writer again", func() bool {
			for _, a := range c.agents {
				if int(a.metric("freshet_zonewriter_streams")) == len(c.agents)-1 {
					return true
				}
			}
			return false
		})
		l.more(200)
	}
	l.stop(ledger.Rules{})
}

// TestZoneWriters_OwnerChanges: while agents hand over to a writer, ownership passes on again and again. All of them lose the
// owner then, and none turns away from the writer for that: producers without sequence numbers, which never try again,
// keep their order, and none of them gets an error (I2).
func TestZoneWriters_OwnerChanges(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{seed: 1, agents: 3, zones: 1, succession: true, patient: true})
	l := c.startLoad("t", 3, 4, 20*time.Millisecond, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5),
		kgo.RecordRetries(0), kgo.ProduceRequestTimeout(patience))
	c.zoneWriter()
	for range 3 {
		l.more(150)
		c.succeeded(c.dethrone())
		l.more(150)
	}
	l.stop(ledger.Rules{})
}
