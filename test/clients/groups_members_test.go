package clients

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/test/harness"
)

// member is how a member of a group is made: by the configuration names that Java and librdkafka share.
type member struct {
	Op     string            `json:"op"`
	Name   string            `json:"name"`
	Topic  string            `json:"topic"`
	Regex  string            `json:"regex,omitempty"`
	Config map[string]string `json:"config"`
}

// with gives the member with another name and more configuration: names and values in turn.
func (m member) with(name string, pairs ...string) member {
	m.Name, m.Config = name, maps.Clone(m.Config)
	for i := 0; i < len(pairs); i += 2 {
		m.Config[pairs[i]] = pairs[i+1]
	}
	return m
}

// holding is what a member has and has had.
type holding struct {
	Assigned []int32 // numbers of its partitions, ascending
	Revoked  int     // partitions that it had to give up so far
	Records  int     // that it read
	Failure  string
}

// crew are members of one client library, in one process.
type crew interface {
	join(t testing.TB, m member)
	look(t testing.TB, name string) holding
	close(t testing.TB, name string)
	kill(t testing.TB) // all at once, without a word; not of javaCrew
}

// foreign is a crew in a worker.
type foreign struct{ w *harness.Worker }

func javaCrew(t testing.TB) crew {
	t.Helper()
	return foreign{harness.JavaWorker(t, "Consumers")}
}

// loneJavaCrew is one that can be killed.
func loneJavaCrew(t testing.TB) crew {
	t.Helper()
	return foreign{harness.LoneJavaWorker(t, "Consumers")}
}

func pythonCrew(t testing.TB) crew {
	t.Helper()
	return foreign{harness.PythonWorker(t, "consumers.py")}
}

func (f foreign) join(t testing.TB, m member) {
	t.Helper()
	m.Op = "join"
	require.NoError(t, f.w.Call(t, m, nil))
}

func (f foreign) look(t testing.TB, name string) (h holding) {
	t.Helper()
	require.NoError(t, f.w.Call(t, map[string]string{"op": "look", "name": name}, &h))
	require.Empty(t, h.Failure)
	return h
}

func (f foreign) close(t testing.TB, name string) {
	t.Helper()
	require.NoError(t, f.w.Call(t, map[string]string{"op": "leave", "name": name}, nil))
}

func (f foreign) kill(testing.TB) { f.w.Kill() }

// franzCrew is a crew of franz-go in this process.
type franzCrew struct {
	members map[string]*franzMember
	network *network
}

// network is the network of a crew that lives in the test's process: cut, its members are as good as killed.
type network struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (w *network) dial(ctx context.Context, kind, host string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, kind, host)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, conn)
	if w.cut {
		_ = conn.Close()
	}
	return conn, nil
}

// mend lets members that are to end say so, which they else try for half a minute.
func (w *network) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = false
}

type franzMember struct {
	network  *network
	client   *kgo.Client
	broker   string
	group    string
	instance string // of a static member of the consumer protocol, else empty
	stop     context.CancelFunc
	done     chan struct{}

	mu  sync.Mutex
	has map[int32]bool
	h   holding
}

func newFranzCrew(testing.TB) crew { return franzCrew{make(map[string]*franzMember), new(network)} }

func (f franzCrew) join(t testing.TB, m member) {
	t.Helper()
	fm := &franzMember{
		network: f.network, broker: m.Config["bootstrap.servers"], group: m.Config["group.id"], has: make(map[int32]bool), done: make(chan struct{}),
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(m.Config["bootstrap.servers"]), kgo.ConsumerGroup(m.Config["group.id"]), kgo.ConsumeTopics(m.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.OnPartitionsAssigned(fm.assigned),
		kgo.OnPartitionsRevoked(fm.revoked), kgo.OnPartitionsLost(fm.revoked), kgo.BlockRebalanceOnPoll(),
		kgo.Dialer(f.network.dial),
	}
	if ms, err := strconv.Atoi(m.Config["session.timeout.ms"]); err == nil {
		options = append(options, kgo.SessionTimeout(time.Duration(ms)*time.Millisecond))
	}
	if ms, err := strconv.Atoi(m.Config["heartbeat.interval.ms"]); err == nil {
		options = append(options, kgo.HeartbeatInterval(time.Duration(ms)*time.Millisecond))
	}
	if id := m.Config["group.instance.id"]; id != "" {
		options = append(options, kgo.InstanceID(id))
	}
	if m.Config["group.protocol"] == "consumer" {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
		fm.instance = m.Config["group.instance.id"]
	}
	client, err := kgo.NewClient(options...)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	fm.client, fm.stop = client, stop
	f.members[m.Name] = fm
	go fm.read(ctx)
	t.Cleanup(func() { fm.close() })
}

func (m *franzMember) read(ctx context.Context) {
	defer close(m.done)
	for ctx.Err() == nil {
		fetches := m.client.PollFetches(ctx)
		m.mu.Lock()
		m.h.Records += fetches.NumRecords()
		m.mu.Unlock()
		m.client.AllowRebalance()
	}
}

func (m *franzMember) close() {
	m.network.mend()
	m.stop()
	<-m.done
	// Of what was polled last, the client commits nothing by itself. Twice is once, and after Close it is refused.
	_ = m.client.CommitUncommittedOffsets(context.Background())
	id, _ := m.client.GroupMetadata()
	m.client.CloseAllowingRebalance()
	if m.instance != "" && id != "" {
		m.leave(id)
	}
}

// leave says again that a static member of the consumer protocol goes for a while: the client's own heartbeat of epoch
// -2 (leave848 of version 1.22.2) lacks the instance id, for which Kafka, too, answers INVALID_REQUEST
// (GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid), so that the instance would stay taken until
// the session ends.
func (m *franzMember) leave(id string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(m.broker))
	if err != nil {
		return
	}
	defer client.Close()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.InstanceID = m.group, id, -2, &m.instance
	_, _ = req.RequestWith(context.Background(), client) // the successor tells whether it worked
}

func (m *franzMember) assigned(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, numbers := range partitions {
		for _, p := range numbers {
			m.has[p] = true
		}
	}
}

func (m *franzMember) revoked(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, numbers := range partitions {
		m.h.Revoked += len(numbers)
		for _, p := range numbers {
			delete(m.has, p)
		}
	}
}

func (f franzCrew) look(_ testing.TB, name string) holding {
	m := f.members[name]
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.h
	h.Assigned = slices.Sorted(maps.Keys(m.has))
	return h
}

func (f franzCrew) close(_ testing.TB, name string) { f.members[name].close() }

func (f franzCrew) kill(testing.TB) {
	f.network.mu.Lock()
	defer f.network.mu.Unlock()
	f.network.cut = true
	for _, conn := range f.network.conns {
		_ = conn.Close()
	}
}
