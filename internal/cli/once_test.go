package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// silentCluster returns a broker that takes requests of the given keys and never answers them, except Metadata requests without
// topics, which open a connection.
func silentCluster(t *testing.T, keys ...kmsg.Key) ClientConfig {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	for _, key := range keys {
		cluster.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			m, ok := req.(*kmsg.MetadataRequest)
			return nil, nil, !ok || m.Topics == nil || len(m.Topics) > 0
		})
	}
	return ClientConfig{Bootstrap: cluster.ListenAddrs(), Timeout: time.Second, patience: 100 * time.Millisecond}
}

// TestClientConfig_Once checks that Timeout bounds each command that ends by itself, and that its error names the address.
func TestClientConfig_Once(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(context.Context, ClientConfig, Streams) error{
		"topic list": func(ctx context.Context, c ClientConfig, s Streams) error {
			return ListTopics(ctx, TopicConfig{ClientConfig: c}, s)
		},
		"topic describe": func(ctx context.Context, c ClientConfig, s Streams) error {
			return DescribeTopics(ctx, TopicConfig{ClientConfig: c, Topics: []string{"t"}}, s)
		},
		"topic create": func(ctx context.Context, c ClientConfig, s Streams) error {
			return CreateTopics(ctx, TopicConfig{ClientConfig: c, Topics: []string{"u"}}, s)
		},
		"topic delete": func(ctx context.Context, c ClientConfig, s Streams) error {
			return DeleteTopics(ctx, TopicConfig{ClientConfig: c, Topics: []string{"t"}}, s)
		},
		"topic alter": func(ctx context.Context, c ClientConfig, s Streams) error {
			return AlterTopics(ctx, TopicConfig{ClientConfig: c, Topics: []string{"t"}, Partitions: 2}, s)
		},
		"group list": func(ctx context.Context, c ClientConfig, s Streams) error {
			return ListGroups(ctx, GroupConfig{ClientConfig: c}, s)
		},
		"group describe": func(ctx context.Context, c ClientConfig, s Streams) error {
			return DescribeGroups(ctx, GroupConfig{ClientConfig: c, Groups: []string{"g"}}, s)
		},
		"group delete": func(ctx context.Context, c ClientConfig, s Streams) error {
			return DeleteGroups(ctx, GroupConfig{ClientConfig: c, Groups: []string{"g"}}, s)
		},
		"group reset": func(ctx context.Context, c ClientConfig, s Streams) error {
			return ResetOffsets(ctx, GroupConfig{ClientConfig: c, Groups: []string{"g"}, To: "earliest"}, s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := silentCluster(t, kmsg.Metadata, kmsg.ListGroups, kmsg.DescribeGroups, kmsg.FindCoordinator, kmsg.CreateTopics, kmsg.DeleteTopics, kmsg.CreatePartitions)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var out, errs bytes.Buffer
			err := run(ctx, c, Streams{Out: &out, Err: &errs})
			require.NoError(t, ctx.Err(), "the command outlasts a minute")
			require.ErrorIs(t, err, context.DeadlineExceeded, "the context of Timeout ends requests, before the client does")
			require.ErrorContains(t, err, "no complete answer from "+c.Bootstrap[0]+" for 1 s (--timeout): ")
			require.Contains(t, errs.String(), "freshet: no answer from "+c.Bootstrap[0]+" for 0.1 s; still trying: ")
			require.Empty(t, out.String())
		})
	}
}

// TestProduce_ReportsSilenceBeforeTheFirstRecord holds the request for the topic's configs, which precedes the first record.
func TestProduce_ReportsSilenceBeforeTheFirstRecord(t *testing.T) {
	t.Parallel()
	c := silentCluster(t, kmsg.DescribeConfigs)
	out := lines{again: make(chan struct{})}
	require.NoError(t, Produce(t.Context(), ProduceConfig{ClientConfig: c, Topic: "t", Partition: -1}, Streams{In: bytes.NewBufferString("one\n"), Out: io.Discard, Err: &out}))
	require.Contains(t, out.String(), "freshet: no answer from "+c.Bootstrap[0]+" for 0.1 s; still trying: ")
}

// TestConsume_ReportsSilenceBeforeTheFirstFetch holds the request for the topic's partitions.
func TestConsume_ReportsSilenceBeforeTheFirstFetch(t *testing.T) {
	t.Parallel()
	c := silentCluster(t, kmsg.Metadata)
	var errs bytes.Buffer
	err := Consume(t.Context(), ConsumeConfig{ClientConfig: c, Topic: "t"}, Streams{Out: io.Discard, Err: &errs})
	require.ErrorContains(t, err, "no complete answer from "+c.Bootstrap[0])
	require.Contains(t, errs.String(), "freshet: no answer from "+c.Bootstrap[0]+" for 0.1 s; still trying: ")
}

func TestClientConfig_ReportSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ClientConfig{Bootstrap: []string{"a:1", "b:2"}}
		c.ApplyDefaults()
		var out bytes.Buffer
		var heard failures
		stop := c.reportSilence(&out, &heard)
		time.Sleep(4 * time.Second) // sleeps: fake time
		stop()
		stop()
		require.Empty(t, out.String(), "the answer came in time")

		stop = c.reportSilence(&out, &heard)
		heard.Log(0, "unable to open connection", "err", errors.New("connection refused"))
		heard.Log(0, "request failed", "err", kgo.ErrClientClosed)
		time.Sleep(time.Minute) // sleeps: fake time
		stop()
		require.Equal(t, "freshet: no answer from a:1,b:2 for 5 s; still trying: connection refused\n", out.String())
	})
}

func TestClientConfig_Late(t *testing.T) {
	t.Parallel()
	c := ClientConfig{Bootstrap: []string{"a:1"}, Timeout: time.Second}
	require.ErrorIs(t, c.late(kerr.TopicAuthorizationFailed, &failures{}), kerr.TopicAuthorizationFailed)
	late := c.late(failed("list groups", &net.OpError{Op: "read", Err: context.DeadlineExceeded}), &failures{})
	require.EqualError(t, late, "no complete answer from a:1 for 1 s (--timeout): list groups: read: context deadline exceeded; "+
		"`freshet status` names faulty parts of the cluster")
	require.ErrorIs(t, late, context.DeadlineExceeded)
}

// TestOperatorConfig_AskDividesTimeout lets one replica keep its request: the next replica answers within the same Timeout.
func TestOperatorConfig_AskDividesTimeout(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		<-r.Context().Done()
	}))
	defer silent.Close()
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"zones":[]}`)) }))
	defer answers.Close()
	c := OperatorConfig{ControlPlane: []string{silent.URL, silent.URL, answers.URL}, VirtualCluster: "main", Key: "k", Timeout: time.Second}
	var out, errs bytes.Buffer
	began := time.Now()
	require.NoError(t, ListZones(t.Context(), c, false, Streams{Out: &out, Err: &errs}))
	t.Logf("answered after %s", time.Since(began))
	require.EqualValues(t, 2, asked.Load())
	require.Contains(t, errs.String(), "no agent has reported")

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c.ControlPlane = []string{silent.URL, silent.URL}
	require.ErrorIs(t, ListZones(ctx, c, false, Streams{Out: &out, Err: &errs}), errUnavailable)
	require.NoError(t, ctx.Err())
}

// TestCommands_NameTheFirstCause lets agents hang up on requests that go to several agents.
func TestCommands_NameTheFirstCause(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]struct {
		hangUp kmsg.Key
		run    func(context.Context, ClientConfig, Streams) error
	}{
		"group list": {kmsg.ListGroups, func(ctx context.Context, c ClientConfig, s Streams) error {
			return ListGroups(ctx, GroupConfig{ClientConfig: c}, s)
		}},
		"group describe": {kmsg.ListOffsets, func(ctx context.Context, c ClientConfig, s Streams) error {
			return DescribeGroups(ctx, GroupConfig{ClientConfig: c, Groups: []string{"g"}}, s)
		}},
		"group reset": {kmsg.ListOffsets, func(ctx context.Context, c ClientConfig, s Streams) error {
			return ResetOffsets(ctx, GroupConfig{ClientConfig: c, Groups: []string{"g"}, To: "earliest"}, s)
		}},
		"topic describe": {kmsg.DescribeConfigs, func(ctx context.Context, c ClientConfig, s Streams) error {
			return DescribeTopics(ctx, TopicConfig{ClientConfig: c, Topics: []string{"t"}}, s)
		}},
		"consume": {kmsg.ListOffsets, func(ctx context.Context, c ClientConfig, _ Streams) error {
			client, err := c.dial(ctx)
			require.NoError(t, err)
			defer client.Close()
			e := ends{topic: "t"}
			_, err = e.trimmed(ctx, client, 0, &end{})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(4, "t"))
			require.NoError(t, err)
			defer cluster.Close()
			c := ClientConfig{Bootstrap: cluster.ListenAddrs(), Timeout: time.Second}
			client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap...))
			require.NoError(t, err)
			defer client.Close()
			offsets := kadm.Offsets{}
			for p := range int32(4) {
				offsets.AddOffset("t", p, 0, -1)
			}
			require.NoError(t, kadm.NewClient(client).CommitAllOffsets(t.Context(), "g", offsets))
			cluster.ControlKey(int16(command.hangUp), func(kmsg.Request) (kmsg.Response, error, bool) {
				cluster.KeepControl()
				return nil, errors.New("hang up"), true
			})
			err = command.run(t.Context(), c, Streams{Out: io.Discard, Err: io.Discard})
			require.Error(t, err)
			require.NotContains(t, err.Error(), "separate shard errors")
		})
	}
}
