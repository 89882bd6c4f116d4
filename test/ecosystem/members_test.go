package ecosystem

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
)

// view is what a member of a group tells of itself.
type view struct {
	Assigned    int // partitions it has
	Assignments int // calls of its rebalance listener, here and below
	Revocations int
	Losses      int
	Records     int    // read
	Breaks      int    // records that were not the ones that follow in their partition
	Member      string // id
	Generation  int    // or member epoch; librdkafka tells none
	Failure     string // what ended it
}

// library gives members of one client library.
type library interface {
	join(t *testing.T, name string, g group)
	look(t *testing.T, name string) view
}

// group is what a member joins.
type group struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Protocol  string `json:"protocol"` // classic, consumer
	Bootstrap string `json:"bootstrap"`
}

// foreign members live in a worker.
type foreign struct{ w *harness.Worker }

func (f foreign) join(t *testing.T, name string, g group) {
	t.Helper()
	require.NoError(t, f.w.Call(t, struct {
		Op   string `json:"op"`
		Name string `json:"name"`
		group
	}{"join", name, g}, nil))
}

func (f foreign) look(t *testing.T, name string) view {
	t.Helper()
	var v view
	require.NoError(t, f.w.Call(t, map[string]string{"op": "look", "name": name}, &v))
	return v
}

// franz are members of franz-go.
type franz struct{ members map[string]*franzMember }

type franzMember struct {
	client  *kgo.Client
	reading sync.WaitGroup

	mu   sync.Mutex
	view view
	next map[int32]int64
}

func (f franz) join(t *testing.T, name string, g group) {
	t.Helper()
	m := &franzMember{next: make(map[int32]int64)}
	// Of a classic group's heartbeat franz-go makes an error, and gives all partitions up, when it looks for the coordinator
	// and meets the broker that is away twice, under the address it was given and under the one it learnt. So it is given
	// another one's only.
	seed, _, _ := strings.Cut(g.Bootstrap, ",")
	options := []kgo.Opt{
		kgo.SessionTimeout(sessionTimeout), kgo.SeedBrokers(seed), kgo.ConsumerGroup(g.Group), kgo.ConsumeTopics(g.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitInterval(commitInterval),
		kgo.OnPartitionsAssigned(m.counted(&m.view.Assignments, 1)), kgo.OnPartitionsRevoked(m.counted(&m.view.Revocations, -1)),
		kgo.OnPartitionsLost(m.counted(&m.view.Losses, -1)),
	}
	if g.Protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	var err error
	m.client, err = kgo.NewClient(options...)
	require.NoError(t, err)
	f.members[name] = m
	m.reading.Go(m.read)
	t.Cleanup(m.end)
}

// counted gives a rebalance listener that counts its calls, and the partitions that come (sign 1) or go (-1).
func (m *franzMember) counted(calls *int, sign int) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		if len(partitions) == 0 {
			return // a rebalance that took or gave nothing
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		*calls++
		for _, p := range partitions {
			m.view.Assigned += sign * len(p)
		}
	}
}

func (m *franzMember) read() {
	for {
		fetches := m.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		m.note(m.client, fetches)
	}
}

func (m *franzMember) end() {
	m.client.Close()
	m.reading.Wait()
}

func (m *franzMember) note(client *kgo.Client, fetches kgo.Fetches) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fetches.EachRecord(func(r *kgo.Record) {
		if expected, ok := m.next[r.Partition]; ok && expected != r.Offset {
			m.view.Breaks++
		}
		m.next[r.Partition] = r.Offset + 1
		m.view.Records++
	})
	id, generation := client.GroupMetadata()
	m.view.Member, m.view.Generation = id, int(generation)
}

func (f franz) look(t *testing.T, name string) view {
	t.Helper()
	m := f.members[name]
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view
}
