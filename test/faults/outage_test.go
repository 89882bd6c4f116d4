package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/nightly"
	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

var outageFlag = flag.Duration("outage", 3*time.Second,
	"how long a part that is needed for writing stays away in TestOutage; at least 10s in make nightly")

// TestOutage takes away what the agents depend on, as a whole and for a while.
func TestOutage(t *testing.T) {
	t.Parallel()
	outage := *outageFlag
	if nightly.On() { // the owner's lease expires meanwhile
		outage = max(outage, 10*time.Second)
	}
	// What one takes away may not be back if it fails: the other of its pair would fail too.
	t.Run("metadata", func(t *testing.T) {
		t.Parallel()
		c := startCluster(t)
		_ = t.Run("etcd without quorum", func(t *testing.T) { quorumLost(t, c, outage) }) &&
			t.Run("no control plane", func(t *testing.T) { controlPlaneAway(t, c, outage) })
	})
	t.Run("object store", func(t *testing.T) {
		t.Parallel()
		c := startCluster(t)
		_ = t.Run("refuses connections", func(t *testing.T) { storeAway(t, c, outage, c.S3.Kill, c.S3.Restart) }) &&
			t.Run("answers nothing", func(t *testing.T) { storeAway(t, c, outage, c.S3.Stop, c.S3.Cont) })
	})
}

// soon is how long an answer may take that does not wait for what is away; that stays away until it is there.
const soon = 30 * time.Second

// quorumLost pauses two of three members: nothing can be acknowledged, nothing is lost, and it heals by itself.
func quorumLost(t *testing.T, c *harness.Cluster, outage time.Duration) {
	t.Helper()
	tr := startTraffic(t, bootstraps(c)...)
	leader := c.Etcd.Leader(t)
	lost := []*testservers.EtcdMember{leader}
	for _, m := range c.Etcd.Members {
		if m != leader && len(lost) < 2 {
			lost = append(lost, m)
		}
	}
	for _, m := range lost {
		m.Stop()
	}
	began := time.Now()
	stalled(t, c, tr, outage)
	for _, m := range lost {
		m.Cont()
	}
	gone := time.Since(began)
	tr.flows()
	harness.Within(t, "longest stall", tr.finish(), gone+electionStall)
	serving(t, c)
}

// stalled waits until nothing can commit, and checks that nothing is acknowledged for as long as the outage lasts. Nothing can
// commit once a request to etcd has timed out while agents hold bundles that are not settled.
func stalled(t *testing.T, c *harness.Cluster, tr *traffic, outage time.Duration) {
	t.Helper()
	before, acked := failedAttempts(t, c), tr.load.Ledger.Acked()
	harness.Await(t, "nothing can commit", func() bool {
		now := tr.load.Ledger.Acked()
		quiet := now == acked
		acked = now
		return quiet && failedAttempts(t, c) > before && unsettled(t, c) > 0
	})
	harness.During(outage, func() {
		require.Equal(t, acked, tr.load.Ledger.Acked(), "acknowledged without a quorum")
	})
}

// failedAttempts returns how many requests to etcd have failed or timed out.
func failedAttempts(t *testing.T, c *harness.Cluster) (sum float64) {
	t.Helper()
	for _, p := range c.ControlPlanes {
		n, err := harness.Metric(p.HTTP, "freshet_metalog_failed_attempts_total")
		require.NoError(t, err)
		sum += n
	}
	return sum
}

// unsettled returns how many bundles the agents hold whose commit is open.
func unsettled(t *testing.T, c *harness.Cluster) (sum float64) {
	t.Helper()
	for _, a := range c.Agents {
		n, err := a.Metric("freshet_writer_unsettled_bundles")
		require.NoError(t, err)
		sum += n
	}
	return sum
}

// controlPlaneAway kills every replica: agents keep their connections and answer what they know, and one that starts
// meanwhile waits and then serves.
func controlPlaneAway(t *testing.T, c *harness.Cluster, outage time.Duration) {
	t.Helper()
	tr := startTraffic(t, bootstraps(c)...)
	known := dial(t, c.Agents[0].Bootstrap)
	known.metadata(t, tr.load.Topic)
	connections := known.connections.Load()
	killed := time.Now()
	for _, p := range c.ControlPlanes {
		p.Kill()
	}
	c.Agents[2].Kill()
	c.Agents[2].Launch()
	unknown := make(chan error, 1)
	asker := dial(t, c.Agents[1].Bootstrap)
	go func() { unknown <- asker.unknownTopic(t.Context()) }()
	harness.During(outage, func() {
		known.apiVersions(t)
		require.Len(t, known.metadata(t, tr.load.Topic).Topics[0].Partitions, partitions)
		dial(t, c.Agents[1].Bootstrap).apiVersions(t) // a new connection
		for _, a := range c.Agents {
			require.True(t, a.Running(), a.Name)
		}
	})
	require.NoError(t, <-unknown)
	require.Equal(t, connections, known.connections.Load(), "the agent keeps connections")
	for _, p := range c.ControlPlanes {
		p.Launch()
	}
	c.Agents[2].AwaitReady()
	away := time.Since(killed)
	tr.flows()
	harness.Within(t, "longest stall", tr.finish(), away+crashStall)
	serving(t, c)
}

// storeAway takes the object store away: produces wait, everything else goes on, and it heals.
func storeAway(t *testing.T, c *harness.Cluster, outage time.Duration, away, back func()) {
	t.Helper()
	tr := startTraffic(t, bootstraps(c)...)
	writer, _ := zoneWriter(t, c) // which has in its own memory what it wrote
	d := dial(t, writer.Bootstrap)
	topic := fmt.Sprintf("cached-%d", topics.Add(1))
	createTopic(t, topic, 1, writer.Bootstrap)
	offset, err := d.produce(t.Context(), topic, 0, "cached")
	require.NoError(t, err)
	away()
	began := time.Now()
	var slowest time.Duration
	harness.During(outage, func() {
		began := time.Now()
		d.apiVersions(t)
		d.metadata(t, topic)
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		f, err := d.fetch(ctx, topic, 0, offset, time.Second)
		require.NoError(t, err)
		require.Equal(t, []string{"cached"}, f.values)
		d.forwarded(t, topic)
		slowest = max(slowest, time.Since(began))
		for _, a := range c.Agents {
			require.True(t, a.Running(), a.Name)
		}
		for _, p := range c.ControlPlanes {
			require.True(t, p.Running())
		}
	})
	t.Logf("ApiVersions, Metadata, a cached Fetch and DescribeConfigs together took at most %s", slowest.Round(time.Millisecond))
	back()
	gone := time.Since(began)
	tr.flows()
	stall := tr.finish()
	require.Greater(t, stall, outage/2, "the object store was not away")
	harness.Within(t, "longest stall", stall, gone+15*time.Second)
	serving(t, c)
}

// ask sends a request that must be answered soon.
func ask[Resp kmsg.Response](t *testing.T, d *direct, req kmsg.Request) Resp {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	resp, err := request[Resp](ctx, d, req)
	require.NoError(t, err)
	return resp
}

func (d *direct) apiVersions(t *testing.T) {
	t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "faults", "1"
	resp := ask[*kmsg.ApiVersionsResponse](t, d, req)
	require.Zero(t, resp.ErrorCode)
	require.NotEmpty(t, resp.ApiKeys)
}

func metadataOf(topic string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	one := kmsg.NewMetadataRequestTopic()
	one.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, one)
	return req
}

func (d *direct) metadata(t *testing.T, topic string) *kmsg.MetadataResponse {
	t.Helper()
	resp := ask[*kmsg.MetadataResponse](t, d, metadataOf(topic))
	require.NoError(t, kerr.ErrorForCode(resp.Topics[0].ErrorCode))
	require.NotEmpty(t, resp.Brokers)
	return resp
}

// unknownTopic asks for a topic that may have been created since the agent last heard. It must not deny it (I4), but
// say, within the time-outs that clients have, that it cannot tell.
func (d *direct) unknownTopic(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	resp, err := request[*kmsg.MetadataResponse](ctx, d, metadataOf("nobody-knows"))
	if err != nil {
		return err
	}
	told := kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	if !kerr.IsRetriable(told) || errors.Is(told, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("an unknown topic got %w", told)
	}
	return nil
}

// forwarded makes a request that the owner answers.
func (d *direct) forwarded(t *testing.T, topic string) {
	t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	one := kmsg.NewDescribeConfigsRequestResource()
	one.ResourceType, one.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	req.Resources = append(req.Resources, one)
	resp := ask[*kmsg.DescribeConfigsResponse](t, d, req)
	require.NoError(t, kerr.ErrorForCode(resp.Resources[0].ErrorCode))
}

// brokers gives the agents that Metadata shows.
func brokers(t *testing.T, address string) []kmsg.MetadataResponseBroker {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	return ask[*kmsg.MetadataResponse](t, dial(t, address), req).Brokers
}
