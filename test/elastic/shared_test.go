package elastic

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

const (
	sharedZones = 2
	sharedPorts = 2
)

// sharedScene is a scene whose clients reach agents by one load balancer per zone.
type sharedScene struct {
	*scene
	balancers []*balancer // by zone
	listens   [][]string  // by agent: where the balancer of its zone reaches it
}

// TestShared lets agents behind load balancers come and go. Clients of all families, in one zone, in the other and in an unknown
// one, produce and read by the shared listener alone. So does the librdkafka of kcat, which may be from before 2.10.
func TestShared(t *testing.T) {
	s := newSharedScene(t)
	old := startKcat(s)
	s.phase("2 agents in each of 2 zones", steady, 0, func() {})
	s.describe()
	s.phase("SIGTERM, and it comes back", clean, 0, func() {
		s.down(0)
		s.up(0)
	})
	s.phase("kill -9", rough, 0, func() {
		s.fleet.Agents[1].Kill()
		s.balancers[1].remove(s.listens[1])
	})
	s.phase("SIGTERM before the load balancer knows", rough, 0, func() {
		s.fleet.stop(2)
		s.balancers[0].remove(s.listens[2])
	})
	s.phase("zone b empties", clean, 0, func() {
		s.up(1)
		s.down(1, 3) // at once: neither can leave its clients to the other
		s.zonesChange()
	})
	s.phase("zone b refills", clean, 0, func() {
		s.up(1, 3)
		s.zonesChange()
		s.fleet.serves(1, 3) // its clients come back
	})
	old.end()
	s.end()
}

// kcatTopic has what kcat writes.
const kcatTopic = "kcat"

// kcat is a producer in zone b.
type kcat struct {
	s    *sharedScene
	stop context.CancelFunc // ends its input
	sent chan int           // how many records, once the input has ended
	done chan struct{}      // closed when kcat has ended
}

func startKcat(s *sharedScene) *kcat {
	s.t.Helper()
	_, err := s.admin.CreateTopic(s.t.Context(), 1, 1, nil, kcatTopic)
	require.NoError(s.t, err)
	ctx, stop := context.WithCancel(context.Background())
	k := &kcat{s: s, stop: stop, sent: make(chan int, 1), done: make(chan struct{})}
	out, in := io.Pipe()
	go func() {
		defer close(k.done)
		defer func() { _ = out.Close() }() // kcat has failed if there is more
		// Without -E kcat ends when all connections it has had are closed, which the crash of one agent can do.
		harness.Kcat(s.t, s.bootstrap, out, nil, "-P", "-E", "-t", kcatTopic, "-p", "0", "-X", "client.id=old,zone=b", "-X", "enable.idempotence=true")
	}()
	go func() {
		n := 0
		defer func() { k.sent <- n }()
		defer func() { _ = in.Close() }()
		tick := time.NewTicker(intervalMs * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if _, err := fmt.Fprintln(in, n); err != nil {
				return
			}
			n++
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	s.t.Cleanup(func() { stop(); <-k.done })
	return k
}

// end waits until kcat has got everything through, and has it read all again.
func (k *kcat) end() {
	k.s.t.Helper()
	k.stop()
	n := <-k.sent
	<-k.done
	var got strings.Builder
	harness.Kcat(k.s.t, k.s.bootstrap, nil, &got, "-C", "-t", kcatTopic, "-p", "0", "-o", "beginning", "-e", "-X", "client.id=old,zone=b")
	read := strings.Fields(got.String())
	require.Len(k.s.t, read, n)
	for i, number := range read {
		require.Equal(k.s.t, strconv.Itoa(i), number)
	}
	k.s.t.Logf("%d records of kcat, all there once and in order", n)
}

func newSharedScene(t *testing.T) *sharedScene {
	t.Helper()
	s := &sharedScene{scene: &scene{t: t, short: true, marked: make(map[string][]int64)}}
	c := harness.NewCluster(t, harness.ClusterConfig{
		Agents: 1, ControlPlanes: 1, EtcdMembers: 1, Zones: zones[:sharedZones],
		ControlFlags: []string{"--group-initial-rebalance-delay-ms=500"},
	})
	var advertise, bootstrap []string
	for _, zone := range zones[:sharedZones] {
		b := newBalancer(t, sharedPorts)
		s.balancers = append(s.balancers, b)
		advertise = append(advertise, b.entries("external", zone))
		bootstrap = append(bootstrap, b.ports[0].address)
	}
	s.bootstrap = strings.Join(bootstrap, ",")
	c.Agents = nil
	for i := range 2 * sharedZones {
		zone := zones[i%sharedZones]
		flags := []string{"--zone", zone, "--shared-advertise", strings.Join(advertise, ",")}
		var listens []string
		for range sharedPorts {
			listens = append(listens, testservers.Place{}.FreeAddress(t))
			flags = append(flags, "--kafka-listen", "external="+listens[len(listens)-1])
		}
		a := c.NewAgentWith(t, fmt.Sprintf("agent-%d", i), flags...)
		a.Zone = zone
		c.Agents, s.listens = append(c.Agents, a), append(s.listens, listens)
	}
	for _, p := range c.ControlPlanes {
		p.Launch()
	}
	s.fleet = &fleet{Cluster: c, t: t, drain: finishing}
	for i, a := range c.Agents {
		a.Launch()
		a.AwaitReady()
		s.balancers[i%sharedZones].add(s.listens[i])
	}
	s.topics()
	s.families = allFamilies(t)
	for _, name := range s.names() {
		g := &group{name: name + "-shared", family: s.families[name], kind: "classic", tells: name != "librdkafka", fleet: s.fleet}
		s.commitStart(g.name)
		s.groups = append(s.groups, g)
		s.join(name, g)
	}
	for _, g := range s.groups {
		g.settle(t)
	}
	s.write("java", "writer,zone=a")
	s.write("librdkafka", "writer,zone=b")
	s.write("franz-go", "writer")
	s.flows()
	s.mark() // connections were made meanwhile
	return s
}

// up starts agents and has the load balancers send them connections.
func (s *sharedScene) up(agents ...int) {
	s.t.Helper()
	s.fleet.start(agents...)
	for _, i := range agents {
		s.balancers[i%sharedZones].add(s.listens[i])
	}
}

// down has the load balancers send agents no more connections, then stops them.
func (s *sharedScene) down(agents ...int) {
	s.t.Helper()
	for _, i := range agents {
		s.balancers[i%sharedZones].remove(s.listens[i])
	}
	s.fleet.stop(agents...)
}

// describe compares what answers say of nodes, by a client whose zone is known.
func (s *sharedScene) describe() {
	t := s.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), finishing)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(s.bootstrap, ",")...), kgo.ClientID(admin))
	require.NoError(t, err)
	defer client.Close()
	k := kadm.NewClient(client)
	meta, err := k.Metadata(ctx, topic)
	require.NoError(t, err)
	addresses := make(map[string]string)
	for _, b := range meta.Brokers {
		addresses[fmt.Sprintf("%s:%d", b.Host, b.Port)] = *b.Rack
	}
	want := make(map[string]string)
	for i, b := range s.balancers {
		for _, p := range b.ports {
			want[p.address] = zones[i]
		}
	}
	require.Equal(t, want, addresses)
	for _, p := range meta.Topics[topic].Partitions {
		require.Len(t, p.Replicas, sharedZones*sharedPorts, "the replication factor is 4")
	}
	dirs, err := k.DescribeAllLogDirs(ctx, nil)
	require.NoError(t, err)
	var held int
	dirs.Each(func(d kadm.DescribedLogDir) {
		require.NoError(t, d.Err)
		held += len(d.Topics[topic])
	})
	require.Equal(t, partitions, held, "each partition is one node's")
	configs, err := k.DescribeBrokerConfigs(ctx, meta.Brokers.NodeIDs()...)
	require.NoError(t, err)
	require.Len(t, configs, len(want))
	for _, c := range configs {
		require.NoError(t, c.Err)
		id, err := strconv.Atoi(c.Name)
		require.NoError(t, err)
		require.Contains(t, meta.Brokers.NodeIDs(), int32(id))
	}
}
