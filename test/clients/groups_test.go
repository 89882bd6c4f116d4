package clients

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/test/harness"
)

// groupLimit bounds how long a group may take to settle.
const groupLimit = 3 * time.Minute

// groupSettings let members of the consumer protocol be told of changes as soon as those of the classic one, and be missed
// as soon where a group is to: by default that takes 5 s and 45 s.
var groupSettings = []string{
	"--group-consumer-min-session-timeout-ms=6000",
	"--group-consumer-heartbeat-interval-ms=500", "--group-consumer-min-heartbeat-interval-ms=500",
}

// groups is the cluster that all tests of groups share.
type groups struct {
	*harness.Dev
	client *kgo.Client
}

// TestGroups has all its groups at once on one node: they mostly wait.
func TestGroups(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, groupSettings...)
	client, err := kgo.NewClient(kgo.SeedBrokers(dev.Bootstrap))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	g := &groups{dev, client}
	libraries := []struct {
		name        string
		cooperative string // its assignor of that kind
		start       func(testing.TB) crew
		mortal      func(testing.TB) crew // can be killed
	}{
		{"java", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor", javaCrew, loneJavaCrew},
		{"librdkafka", "cooperative-sticky", pythonCrew, pythonCrew},
		{"franz-go", "", newFranzCrew, newFranzCrew}, // without a choice
	}
	// The subtests run at once; the cluster goes when they are done.
	for _, l := range libraries {
		for _, protocol := range []string{"classic", "consumer"} {
			name := l.name + " " + protocol
			t.Run(name+" members join and leave", func(t *testing.T) { t.Parallel(); g.joinAndLeave(t, protocol, l.start) })
			t.Run(name+" members are missed", func(t *testing.T) { t.Parallel(); g.killed(t, protocol, l.start, l.mortal) })
			t.Run(name+" static members restart", func(t *testing.T) { t.Parallel(); g.static(t, protocol, l.start) })
		}
		t.Run(l.name+" cooperative members keep what they have", func(t *testing.T) { t.Parallel(); g.cooperative(t, l.cooperative, l.start) })
	}
	t.Run("a group moves to the consumer protocol and back", func(t *testing.T) { t.Parallel(); g.migrated(t) })
	t.Run("a regular expression finds new topics", func(t *testing.T) { t.Parallel(); g.regex(t) })
	t.Run("two hundred members share a topic", func(t *testing.T) { t.Parallel(); g.crowd(t) })
}

// member describes one of a group of the test's own, with a topic of its own.
func (g *groups) member(t *testing.T, partitions int32, protocol string) member {
	t.Helper()
	name := fmt.Sprintf("g%d", time.Now().UnixNano())
	_, err := kadm.NewClient(g.client).CreateTopic(t.Context(), partitions, 1, nil, name)
	require.NoError(t, err)
	m := member{Topic: name, Config: map[string]string{
		"bootstrap.servers": g.Bootstrap, "group.id": name, "group.protocol": protocol,
	}}
	if protocol == "classic" {
		m.Config["heartbeat.interval.ms"] = "500"
	}
	return m
}

// missed lets the members of a group be missed as soon as brokers allow. Those of the others, who are not to be, have the
// default's time to say something.
func (g *groups) missed(t *testing.T, m member, protocol string) {
	t.Helper()
	const session = "6000"
	if protocol == "classic" {
		m.Config["session.timeout.ms"] = session
		return
	}
	req, r := kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, m.Topic
	r.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "consumer.session.timeout.ms", Value: kmsg.StringPtr(session)}}
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(t.Context(), g.client)
	require.NoError(t, err)
	require.NoError(t, kerr.ErrorForCode(resp.Resources[0].ErrorCode))
}

// await waits until the members named have that many partitions each, all of them different ones.
func await(t *testing.T, c crew, want map[string]int) {
	t.Helper()
	var last string
	deadline := time.Now().Add(groupLimit)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for time.Now().Before(deadline) {
		last = ""
		good, seen := true, make(map[int32]bool)
		for name, n := range want {
			h := c.look(t, name)
			last += fmt.Sprintf("%s has %v; ", name, h.Assigned)
			good = good && len(h.Assigned) == n
			for _, p := range h.Assigned {
				good = good && !seen[p]
				seen[p] = true
			}
		}
		if good {
			return
		}
		<-tick.C
	}
	t.Fatalf("wanted %v: %s", want, last)
}

func (g *groups) joinAndLeave(t *testing.T, protocol string, start func(testing.TB) crew) {
	t.Helper()
	c, m := start(t), g.member(t, 6, protocol)
	c.join(t, m.with("a"))
	await(t, c, map[string]int{"a": 6})
	c.join(t, m.with("b"))
	await(t, c, map[string]int{"a": 3, "b": 3})
	c.join(t, m.with("c"))
	await(t, c, map[string]int{"a": 2, "b": 2, "c": 2})
	c.close(t, "a")
	await(t, c, map[string]int{"b": 3, "c": 3})
	g.produce(t, m.Topic, 60)
	harness.Await(t, "60 records read", func() bool { return c.look(t, "b").Records+c.look(t, "c").Records == 60 })
	c.close(t, "b")
	await(t, c, map[string]int{"c": 6})
	g.produce(t, m.Topic, 60)
	read := c.look(t, "b").Records
	harness.Await(t, "each record read once", func() bool { return read+c.look(t, "c").Records == 120 })
}

func (g *groups) produce(t *testing.T, topic string, n int) {
	t.Helper()
	for i := range n {
		g.client.Produce(t.Context(), &kgo.Record{Topic: topic, Key: []byte(strconv.Itoa(i))}, nil)
	}
	require.NoError(t, g.client.Flush(t.Context()))
}

func (g *groups) killed(t *testing.T, protocol string, start, mortal func(testing.TB) crew) {
	t.Helper()
	m := g.member(t, 6, protocol)
	g.missed(t, m, protocol)
	stays, dies := start(t), mortal(t)
	dies.join(t, m.with("dies"))
	await(t, dies, map[string]int{"dies": 6})
	stays.join(t, m.with("stays"))
	await(t, stays, map[string]int{"stays": 3})
	dies.kill(t)
	await(t, stays, map[string]int{"stays": 6})
}

func (g *groups) static(t *testing.T, protocol string, start func(testing.TB) crew) {
	t.Helper()
	c, m := start(t), g.member(t, 6, protocol)
	c.join(t, m.with("a", "group.instance.id", "one"))
	c.join(t, m.with("b", "group.instance.id", "two"))
	await(t, c, map[string]int{"a": 3, "b": 3})
	before, other := c.look(t, "a"), c.look(t, "b").Assigned
	for _, name := range []string{"second life", "third life"} {
		last := "b"
		if name == "third life" {
			last = "second life"
		}
		c.close(t, last)
		c.join(t, m.with(name, "group.instance.id", "two"))
		await(t, c, map[string]int{name: 3})
		require.Equal(t, other, c.look(t, name).Assigned)
	}
	after := c.look(t, "a")
	require.Equal(t, before.Assigned, after.Assigned)
	require.Equal(t, before.Revoked, after.Revoked, "the other member noticed nothing")
}

func (g *groups) cooperative(t *testing.T, assignor string, start func(testing.TB) crew) {
	t.Helper()
	c, m := start(t), g.member(t, 6, "classic")
	if assignor != "" {
		m.Config["partition.assignment.strategy"] = assignor
	}
	c.join(t, m.with("a"))
	await(t, c, map[string]int{"a": 6})
	c.join(t, m.with("b"))
	await(t, c, map[string]int{"a": 3, "b": 3})
	require.Equal(t, 3, c.look(t, "a").Revoked)
	require.Zero(t, c.look(t, "b").Revoked)
	c.close(t, "b")
	await(t, c, map[string]int{"a": 6})
	require.Equal(t, 3, c.look(t, "a").Revoked)
}

// groupType asks what kind a group is.
func (g *groups) groupType(t *testing.T, group string) string {
	t.Helper()
	resp, err := kmsg.NewPtrListGroupsRequest().RequestWith(t.Context(), g.client)
	require.NoError(t, err)
	at := slices.IndexFunc(resp.Groups, func(r kmsg.ListGroupsResponseGroup) bool { return r.Group == group })
	require.GreaterOrEqual(t, at, 0)
	return resp.Groups[at].GroupType
}

func (g *groups) migrated(t *testing.T) {
	t.Helper()
	c, m := javaCrew(t), g.member(t, 6, "classic")
	consumer := m.with("b", "group.protocol", "consumer")
	delete(consumer.Config, "heartbeat.interval.ms")

	c.join(t, m.with("a"))
	await(t, c, map[string]int{"a": 6})
	require.Equal(t, "classic", g.groupType(t, m.Topic))
	g.produce(t, m.Topic, 50)
	c.join(t, consumer)
	await(t, c, map[string]int{"a": 3, "b": 3})
	require.Equal(t, "consumer", g.groupType(t, m.Topic))
	g.produce(t, m.Topic, 50)
	harness.Await(t, "records of before and after", func() bool { return c.look(t, "a").Records+c.look(t, "b").Records == 100 })

	c.close(t, "a")
	await(t, c, map[string]int{"b": 6})
	c.join(t, m.with("c"))
	await(t, c, map[string]int{"b": 3, "c": 3})
	require.Equal(t, "consumer", g.groupType(t, m.Topic))

	c.close(t, "b")
	await(t, c, map[string]int{"c": 6})
	require.Equal(t, "classic", g.groupType(t, m.Topic))
	g.produce(t, m.Topic, 50)
	read := c.look(t, "a").Records + c.look(t, "b").Records
	harness.Await(t, "each record read once", func() bool { return read+c.look(t, "c").Records == 150 })
}

func (g *groups) regex(t *testing.T) {
	t.Helper()
	c, m := javaCrew(t), g.member(t, 1, "consumer")
	m.Regex = m.Topic + ".*"
	c.join(t, m.with("a"))
	await(t, c, map[string]int{"a": 1})
	// Partition 0 of either topic counts as one; the second has two more.
	_, err := kadm.NewClient(g.client).CreateTopic(t.Context(), 3, 1, nil, m.Topic+"-late")
	require.NoError(t, err)
	await(t, c, map[string]int{"a": 3})
}

func (g *groups) crowd(t *testing.T) {
	t.Helper()
	const members = 200
	c, m := newFranzCrew(t), g.member(t, 2*members, "consumer")
	want := make(map[string]int)
	for i := range members {
		name := strconv.Itoa(i)
		c.join(t, m.with(name))
		want[name] = 2
	}
	await(t, c, want)
	ctx, cancel := context.WithTimeout(t.Context(), groupLimit)
	defer cancel()
	harness.Await(t, "stable group", func() bool {
		req := kmsg.NewPtrConsumerGroupDescribeRequest()
		req.Groups = []string{m.Topic}
		resp, err := req.RequestWith(ctx, g.client)
		require.NoError(t, err)
		return resp.Groups[0].State == "Stable" && len(resp.Groups[0].Members) == members
	})
}
