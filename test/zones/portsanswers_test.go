package zones

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

// answersEvery is the time between two requests of a watcher to one port of one agent.
const answersEvery = 250 * time.Millisecond

// answer is one answer of an agent at a zone's port.
type answer struct {
	zone, agent string
	sent, came  time.Time
	foreign     []string // the leaders and coordinators outside the zone
}

// watcher asks every agent at every zone's port for all leaders and coordinators. Each request comes from the agent's own node, so that
// it is on no link.
type watcher struct {
	keys    []string // groups and transactional IDs
	stop    context.CancelFunc
	running sync.WaitGroup
	ctx     context.Context

	mu      sync.Mutex
	answers []answer
}

func newWatcher(t *testing.T, keys []string) *watcher {
	t.Helper()
	w := &watcher{keys: keys}
	w.ctx, w.stop = context.WithCancel(context.Background())
	t.Cleanup(func() { w.stop(); w.running.Wait() })
	return w
}

// watch begins to ask an agent at the port of a zone.
func (w *watcher) watch(t *testing.T, agent string, place testservers.Place, zone, address string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ClientID("watcher"), kgo.RequestRetries(0), kgo.Dialer(place.Dial))
	require.NoError(t, err)
	w.running.Go(func() {
		defer client.Close()
		every := time.NewTicker(answersEvery)
		defer every.Stop()
		for {
			select {
			case <-w.ctx.Done():
				return
			case <-every.C:
				w.ask(client.SeedBrokers()[0], agent, zone)
			}
		}
	})
}

// ask records an agent's answer. An agent that does not run has none.
func (w *watcher) ask(b *kgo.Broker, agent, zone string) {
	a := answer{zone: zone, agent: agent, sent: time.Now()}
	metadata := kmsg.NewPtrMetadataRequest() // nil topics: all
	m, err := b.Request(w.ctx, metadata)
	if err != nil {
		return
	}
	a.foreign = foreignLeaders(zone, m.(*kmsg.MetadataResponse))
	for kind := range int8(2) { // groups, transactions
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorType, find.CoordinatorKeys = kind, w.keys
		f, err := b.Request(w.ctx, find)
		if err != nil {
			return
		}
		a.foreign = append(a.foreign, foreignCoordinators(zone, f.(*kmsg.FindCoordinatorResponse))...)
	}
	a.came = time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers = append(w.answers, a)
}

// during returns the answers at a zone's port whose requests were sent and answered within a time.
func (w *watcher) during(zone string, from, to time.Time) (all []answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.answers {
		if a.zone == zone && a.sent.After(from) && a.came.Before(to) {
			all = append(all, a)
		}
	}
	return all
}

// checkAnswers returns an error if an answer names a leader or coordinator outside the zone of its port, or if an agent gave no answer.
func checkAnswers(answers []answer, agents []*harness.Agent) error {
	answered := make(map[string]bool)
	for _, a := range answers {
		if len(a.foreign) > 0 {
			return fmt.Errorf("port of %s at %s: %d leaders and coordinators of other zones, first the %s", a.zone, a.agent, len(a.foreign), a.foreign[0])
		}
		answered[a.agent] = true
	}
	for _, a := range agents {
		if !answered[a.Name] {
			return fmt.Errorf("no answer of %s", a.Name)
		}
	}
	return nil
}

// zoneAt returns the zone of an address in a network of namespaces, or "".
func zoneAt(host string) string {
	for _, zone := range zones {
		if ip := net.ParseIP(host).To4(); ip != nil && int(ip[2]) == index(zone) {
			return zone
		}
	}
	return ""
}

func foreignLeaders(zone string, m *kmsg.MetadataResponse) (foreign []string) {
	hosts := make(map[int32]string)
	for _, b := range m.Brokers {
		hosts[b.NodeID] = b.Host
	}
	led := 0
	for _, t := range m.Topics {
		for _, p := range t.Partitions {
			if led++; zoneAt(hosts[p.Leader]) != zone {
				foreign = append(foreign, fmt.Sprintf("leader of partition %d: node %d at %q", p.Partition, p.Leader, hosts[p.Leader]))
			}
		}
	}
	if led == 0 {
		foreign = append(foreign, "no partition at all")
	}
	return foreign
}

func foreignCoordinators(zone string, f *kmsg.FindCoordinatorResponse) (foreign []string) {
	for _, c := range f.Coordinators {
		if zoneAt(c.Host) != zone {
			foreign = append(foreign, fmt.Sprintf("coordinator of %q: node %d at %q, error code %d", c.Key, c.NodeID, c.Host, c.ErrorCode))
		}
	}
	if len(f.Coordinators) == 0 {
		foreign = append(foreign, fmt.Sprintf("no coordinators, error code %d", f.ErrorCode))
	}
	return foreign
}
