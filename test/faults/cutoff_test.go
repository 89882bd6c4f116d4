package faults

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/testproxy"
	"github.com/freshet-io/freshet/test/harness"
)

// cutRounds is how many writes and reads follow once an agent has noticed that it is cut off.
const cutRounds = 5

// TestCutOff pauses processes and holds back what they say, so that they go on with what they believed before.
func TestCutOff(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux can the proxies tell which agent a connection is from")
	}
	for group, cases := range map[string]func(t *testing.T, c *harness.Cluster){
		"paused": func(t *testing.T, c *harness.Cluster) {
			t.Helper()
			t.Run("the owner past its lease", func(t *testing.T) { pauseOwner(t, c) })
			t.Run("an agent between PUT and commit", func(t *testing.T) { pauseAgent(t, c) })
		},
		"cut off": func(t *testing.T, c *harness.Cluster) {
			t.Helper()
			t.Run("an agent hears nothing of the owner", func(t *testing.T) { cutAgent(t, c, testproxy.ToClient, false) })
			t.Run("the owner hears nothing of an agent", func(t *testing.T) { cutAgent(t, c, testproxy.ToServer, false) })
			t.Run("the zone's writer hears nothing of the owner", func(t *testing.T) { cutAgent(t, c, testproxy.ToClient, true) })
			t.Run("the owner hears nothing of the zone's writer", func(t *testing.T) { cutAgent(t, c, testproxy.ToServer, true) })
		},
	} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			cases(t, harness.StartCluster(t, harness.ClusterConfig{
				Agents: 3, ControlPlanes: 2, EtcdMembers: 3, Proxied: true, AgentFlags: []string{"--put-budget", "100"},
			}))
		})
	}
}

// pauseOwner: another takes over; the old owner, woken, neither writes nor answers from what it knew (I9).
func pauseOwner(t *testing.T, c *harness.Cluster) {
	t.Helper()
	tr := startTrafficWith(t, impatient(), bootstraps(c)...)
	old := c.Owner(t)
	reader := connect(t, c, old, tr.load.Topic)
	require.Positive(t, reader.lookup(t), "the stream serves look-ups while its replica owns")

	old.Stop()
	next := c.Owner(t, old)
	require.NotSame(t, old, next)
	tr.flows()
	reader.ask(t, stale) // read by the old owner when it wakes, before it can have noticed anything
	old.Cont()
	reader.mustNotAnswer(t)
	harness.Await(t, "the old owner knows that it is none", func() bool { return !old.Owns() })
	require.True(t, old.Running())
	require.True(t, next.Owns())
	tr.flows()
	harness.Within(t, "longest stall", tr.finish(), crashStall+clientTimeout)
	serving(t, c)
}

// stream speaks with one control-plane replica as an agent does, and stays with it whatever happens.
type stream struct {
	rpc   grpc.BidiStreamingClient[api.ToOwner, api.ToAgent]
	topic []byte
}

func connect(t *testing.T, c *harness.Cluster, p *harness.ControlPlane, topic string) *stream {
	t.Helper()
	details, err := kadm.NewClient(newClient(t, bootstraps(c)...)).ListTopics(t.Context(), topic)
	require.NoError(t, err)
	id := details[topic].ID
	conn, err := grpc.NewClient("passthrough:///"+p.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+c.AgentKey)
	rpc, err := api.NewControlPlaneClient(conn).Session(ctx)
	require.NoError(t, err)
	s := &stream{rpc: rpc, topic: id[:]}
	// A zone of its own, so that no client is sent to it.
	s.send(t, &api.AgentItem{Item: &api.AgentItem_Hello{Hello: &api.Hello{
		Protocol: api.Protocol, VirtualCluster: "main", Instance: "stale-reader", Zone: "elsewhere", Version: "test",
		Endpoints: []*api.Endpoint{{Host: "127.0.0.1", Port: 1}},
	}}})
	return s
}

func (s *stream) send(t *testing.T, items ...*api.AgentItem) {
	t.Helper()
	require.NoError(t, s.rpc.Send(&api.ToOwner{Items: items}))
}

// Request ids and probe tokens of what is asked while the replica owns, and when it does no more.
const (
	rightful = 1
	stale    = 2
)

// ask sends a look-up and a probe.
func (s *stream) ask(t *testing.T, id uint64) {
	t.Helper()
	s.send(t,
		&api.AgentItem{Item: &api.AgentItem_Lookup{Lookup: &api.Lookup{Request: id, Partitions: []*api.PartitionLookup{{
			Topic: s.topic, Want: &api.PartitionLookup_ExtentsFrom{ExtentsFrom: 0}, MaxExtents: 1, MaxBytes: 1,
		}}}}},
		&api.AgentItem{Item: &api.AgentItem_Probe{Probe: &api.Probe{Token: id}}},
	)
}

// lookup gives the high watermark of the topic's first partition.
func (s *stream) lookup(t *testing.T) int64 {
	t.Helper()
	s.ask(t, rightful)
	for {
		message, err := s.rpc.Recv()
		require.NoError(t, err)
		for _, item := range message.Items {
			if l := item.GetLookup(); l != nil {
				require.Nil(t, l.Error)
				return l.Partitions[0].HighWatermark
			}
		}
	}
}

// mustNotAnswer reads until the stream ends: nothing of what was asked since the pause may be answered.
func (s *stream) mustNotAnswer(t *testing.T) {
	t.Helper()
	for {
		message, err := s.rpc.Recv()
		if err != nil {
			return
		}
		for _, item := range message.Items {
			if l := item.GetLookup(); l != nil && l.Request == stale {
				require.NotNil(t, l.Error, "a look-up was answered by a replica that is not the owner")
			}
			require.NotEqual(t, uint64(stale), item.GetStamp().GetToken(), "a probe was answered by a replica that is not the owner")
		}
	}
}

// pauseAgent: an agent that was paused after its PUT until its session was closed cannot bring the bundle into the
// log any more; the object stays behind, and clients have written what was in it through others.
func pauseAgent(t *testing.T, c *harness.Cluster) {
	t.Helper()
	const needle = "a record of the agent that was paused"
	tr := startTrafficWith(t, impatient(), bootstraps(c)...)
	victim, other := zoneWriter(t, c)
	reconnect := cutOff(c, testproxy.ToServer, victim)
	defer reconnect()
	answer := make(chan error, 1)
	d := dial(t, victim.Bootstrap)
	go func() {
		_, err := d.produce(t.Context(), tr.load.Topic, 0, needle)
		answer <- err
	}()
	harness.Await(t, "the object is stored", func() bool { return len(objectsWith(t, c, needle)) > 0 })
	victim.Stop()
	harness.Await(t, "the session is closed", func() bool { return !shown(t, other, victim) })
	tr.flows()
	victim.Cont()
	reconnect()
	require.Error(t, <-answer, "nobody may be told that the record is there")
	tr.flows()
	serving(t, c)
	harness.Within(t, "longest stall", tr.finish(), crashStall+clientTimeout)
	require.Len(t, objectsWith(t, c, needle), 1, "the object is left for the sweeper")
	for _, r := range readAll(t, tr.load.Topic, other.Bootstrap) {
		require.NotEqual(t, needle, r.Value)
	}
}

// zoneWriter gives the agent that writes for the others, and one of those.
func zoneWriter(t *testing.T, c *harness.Cluster) (writer, other *harness.Agent) {
	t.Helper()
	harness.Await(t, "an agent writes for the others", func() bool {
		for i, a := range c.Agents {
			if n, err := harness.Metric(a.HTTP, "freshet_zonewriter_streams"); err == nil && int(n) == len(c.Agents)-1 {
				writer, other = a, c.Agents[(i+1)%len(c.Agents)]
				return true
			}
		}
		return false
	})
	return writer, other
}

// shown tells whether one agent's Metadata names another: as long as that one's session is open.
func shown(t *testing.T, by, agent *harness.Agent) bool {
	t.Helper()
	for _, b := range brokers(t, by.Bootstrap) {
		if fmt.Sprintf("%s:%d", b.Host, b.Port) == agent.Bootstrap {
			return true
		}
	}
	return false
}

// objectsWith gives the stored objects that hold a text.
func objectsWith(t *testing.T, c *harness.Cluster, text string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(c.S3.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // a temporary file may go while the directory is walked
		}
		if content, err := os.ReadFile(path); err == nil && strings.Contains(string(content), text) {
			found = append(found, path)
		}
		return nil
	}))
	return found
}

// cutAgent: an agent whose stream with the owner delivers nothing in one direction, while the connection stays open,
// answers right, or with an error, or not in time; never with less than what others were told is there (I4). The others
// write on. Where the agent is the one that they hand their batches to, some of these writes may be answered with an
// error, and what was answered with an offset is there at that offset.
func cutAgent(t *testing.T, c *harness.Cluster, way testproxy.Direction, asWriter bool) {
	t.Helper()
	writer, cut := zoneWriter(t, c)
	if asWriter {
		writer, cut = cut, writer
	}
	r := &witness{t: t, topic: fmt.Sprintf("cut-%d", topics.Add(1)), agent: cut, acked: map[int64]string{}, got: map[int64]string{}, patience: soon}
	createTopic(t, r.topic, 1, bootstraps(c)...)
	r.redial()
	w, next := dial(t, writer.Bootstrap), 0
	write := func() error {
		value := fmt.Sprint(next)
		next++
		offset, err := w.produce(t.Context(), r.topic, 0, value)
		if err == nil {
			r.acked[offset], r.end = value, offset+1
		}
		return err
	}
	for range 5 {
		require.NoError(t, write())
		r.check()
	}
	require.Equal(t, 10, r.right, "nothing is broken yet")
	reconnect := cutOff(c, way, cut)
	defer reconnect() // those that come after want it whole
	r.patience = 300 * time.Millisecond
	failed, noticed, rounds := 0, false, 0
	harness.Await(t, "the others write on while the agent is cut off", func() bool {
		if err := write(); err != nil {
			require.True(t, asWriter, "an agent that is cut off is in nobody's way: %v", err)
			failed++
		}
		r.check()
		if noticed = noticed || !cut.Connected(); noticed {
			rounds++
		}
		return rounds >= cutRounds && len(r.acked) >= 10
	})
	require.Positive(t, r.refused, "the agent was not cut off")
	t.Logf("cut off: %d writes, %d of them failed; %d answers refused or late, %d right", next-5, failed, r.refused, r.right-10)
	reconnect()
	harness.Await(t, "the agent has a stream with the owner", cut.Connected)
	serving(t, c)
	r.patience = soon
	for range 5 {
		require.NoError(t, write())
		r.check()
	}
	r.readOn()
	for offset, value := range r.acked {
		require.Equal(t, value, r.got[offset], "the record acknowledged at offset %d", offset)
	}
	require.LessOrEqual(t, len(r.got), len(r.acked)+failed, "nothing is there twice")
}

// cutOff holds back what the owner and an agent say to each other in one direction, until what it gives is called.
func cutOff(c *harness.Cluster, way testproxy.Direction, agent *harness.Agent) (reconnect func()) {
	for _, p := range c.ControlPlanes {
		p.Proxy.Block(way, agent.Name)
	}
	return func() {
		for _, p := range c.ControlPlanes {
			p.Proxy.Unblock(way, agent.Name)
		}
	}
}

// witness reads a topic through one agent and compares with what writers were told.
type witness struct {
	t        *testing.T
	topic    string
	agent    *harness.Agent
	conn     *direct
	acked    map[int64]string // what writers were told: values by offset
	end      int64            // behind the last of it
	got      map[int64]string // what was read
	position int64
	patience time.Duration // with an answer

	right, refused int // answers
}

func (w *witness) redial() { w.conn = dial(w.t, w.agent.Bootstrap) }

// check asks the agent for the end and for records: both have to be there once a writer was told so, or refused.
func (w *witness) check() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), w.patience)
	defer cancel()
	if told, err := w.conn.end(ctx, w.topic, 0); err != nil {
		w.refused++
		w.redial() // an unanswered request blocks those behind it
	} else {
		require.GreaterOrEqual(w.t, told, w.end, "ListOffsets answered with an end that others had passed")
		w.right++
	}
	if w.position >= w.end {
		return
	}
	ctx, cancel = context.WithTimeout(w.t.Context(), w.patience)
	defer cancel()
	f, err := w.conn.fetch(ctx, w.topic, 0, w.position, 100*time.Millisecond)
	if err != nil {
		w.refused++
		w.redial()
		return
	}
	require.GreaterOrEqual(w.t, f.highWatermark, w.end, "Fetch answered with a high watermark that others had passed")
	require.NotEmpty(w.t, f.values, "Fetch found nothing where others had been told there is something")
	w.right++
	w.keep(f)
}

// readOn reads up to the end.
func (w *witness) readOn() {
	w.t.Helper()
	for w.position < w.end {
		f, err := w.conn.fetch(w.t.Context(), w.topic, 0, w.position, time.Second)
		require.NoError(w.t, err)
		w.keep(f)
	}
}

func (w *witness) keep(f fetched) {
	for i, offset := range f.offsets {
		w.got[offset] = f.values[i]
		w.position = offset + 1
	}
}
