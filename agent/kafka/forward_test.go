package kafka

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/kafkaproto"
)

// forwardRequests gives, for every forwarded API, a request that asks about "x".
func forwardRequests() map[int16]kmsg.Request {
	createTopics := kmsg.NewPtrCreateTopicsRequest()
	createTopics.Topics = append(createTopics.Topics, kmsg.CreateTopicsRequestTopic{Topic: "x"})
	deleteTopics := kmsg.NewPtrDeleteTopicsRequest()
	deleteTopics.TopicNames = []string{"x"}
	deleteTopics.Topics = append(deleteTopics.Topics, kmsg.DeleteTopicsRequestTopic{Topic: kmsg.StringPtr("x")})
	createPartitions := kmsg.NewPtrCreatePartitionsRequest()
	createPartitions.Topics = append(createPartitions.Topics, kmsg.CreatePartitionsRequestTopic{Topic: "x"})
	describeConfigs := kmsg.NewPtrDescribeConfigsRequest()
	describeConfigs.Resources = append(describeConfigs.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: 2, ResourceName: "x"})
	alterConfigs := kmsg.NewPtrAlterConfigsRequest()
	alterConfigs.Resources = append(alterConfigs.Resources, kmsg.AlterConfigsRequestResource{ResourceType: 2, ResourceName: "x"})
	incremental := kmsg.NewPtrIncrementalAlterConfigsRequest()
	incremental.Resources = append(incremental.Resources, kmsg.IncrementalAlterConfigsRequestResource{ResourceType: 2, ResourceName: "x"})
	partitions := kmsg.NewPtrDescribeTopicPartitionsRequest()
	partitions.Topics = append(partitions.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: "x"})
	requests := map[int16]kmsg.Request{}
	for _, r := range []kmsg.Request{
		createTopics, deleteTopics, createPartitions, describeConfigs, alterConfigs, incremental, partitions,
		kmsg.NewPtrInitProducerIDRequest(), kmsg.NewPtrDescribeClusterRequest(), kmsg.NewPtrDescribeLogDirsRequest(),
	} {
		requests[r.Key()] = r
	}
	return requests
}

// errorOf finds the error code of an answer, wherever the API has it.
func errorOf(t *testing.T, out kmsg.Response) int16 {
	t.Helper()
	switch r := out.(type) {
	case *kmsg.CreateTopicsResponse:
		return r.Topics[0].ErrorCode
	case *kmsg.DeleteTopicsResponse:
		return r.Topics[0].ErrorCode
	case *kmsg.CreatePartitionsResponse:
		return r.Topics[0].ErrorCode
	case *kmsg.DescribeConfigsResponse:
		return r.Resources[0].ErrorCode
	case *kmsg.AlterConfigsResponse:
		return r.Resources[0].ErrorCode
	case *kmsg.IncrementalAlterConfigsResponse:
		return r.Resources[0].ErrorCode
	case *kmsg.DescribeTopicPartitionsResponse:
		return r.Topics[0].ErrorCode
	case *kmsg.InitProducerIDResponse:
		return r.ErrorCode
	case *kmsg.DescribeClusterResponse:
		return r.ErrorCode
	case *kmsg.DescribeLogDirsResponse:
		return r.ErrorCode
	}
	t.Fatalf("no error known of %T", out)
	return 0
}

// TestForward_Unavailable: every forwarded API in every version answers its retriable error within the client's time
// when the control plane is away.
func TestForward_Unavailable(t *testing.T) {
	requests := forwardRequests()
	for _, e := range kafkaproto.Table() {
		if e.By != kafkaproto.ByControlPlane {
			continue
		}
		for version := e.Served.Min; version <= e.Served.Max; version++ {
			synctest.Test(t, func(t *testing.T) {
				to := forwarderFunc(func(ctx context.Context, _ client.Forward) ([]byte, error) {
					<-ctx.Done()
					return nil, client.ErrUnavailable
				})
				cfg := Config{Forwarder: to}
				cfg.ApplyDefaults()
				began := time.Now()
				out := call[kmsg.Response](t, newForwarded(e.Key, cfg), version, requests[e.Key], "")
				require.Equal(t, forwardTimeout, time.Since(began))
				if e.Key == int16(kmsg.DescribeLogDirs) && version < 3 {
					return // has no error for the request as a whole
				}
				err := kerr.TypedErrorForCode(errorOf(t, out))
				require.NotNil(t, err, "%s version %d", e.Name, version)
				require.True(t, err.Retriable, "%s version %d: %v", e.Name, version, err)
			})
		}
	}
}

func TestForward_PassesBytesAndOrigin(t *testing.T) {
	var got client.Forward
	to := forwarderFunc(func(_ context.Context, f client.Forward) ([]byte, error) {
		got = f
		got.Body = append([]byte(nil), f.Body...)
		return []byte("answer"), nil
	})
	cfg := Config{Forwarder: to, Zone: "here"}
	cfg.ApplyDefaults()
	in := kmsg.NewPtrDescribeClusterRequest()
	reply := start(t, newForwarded(in.Key(), cfg), 1, in, "me")()
	require.Equal(t, edge.Reply{Head: []byte("answer")}, reply)
	require.Equal(t, client.Forward{
		Key: in.Key(), Version: 1, Body: in.AppendTo(nil), Principal: "User:ANONYMOUS", ClientID: "me", Host: "10.0.0.1",
		Listener: "main", Node: 1, Zone: "here", Connection: 5,
	}, got)
}

func TestForward_MalformedClosesTheConnection(t *testing.T) {
	calls := 0
	to := forwarderFunc(func(context.Context, client.Forward) ([]byte, error) { calls++; return nil, client.ErrInvalid })
	cfg := Config{Forwarder: to}
	cfg.ApplyDefaults()
	f := newForwarded(int16(kmsg.CreateTopics), cfg)
	reply := f.Start(t.Context(), &edge.Request{Key: f.key, Version: 5, Body: []byte{0xff}, Client: &edge.Client{}})()
	require.True(t, reply.Close)
	require.Zero(t, calls, "not passed on")
	reply = start(t, f, 5, kmsg.NewPtrCreateTopicsRequest(), "")()
	require.True(t, reply.Close, "refused by the owner")
}
