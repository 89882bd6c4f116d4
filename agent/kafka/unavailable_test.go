package kafka

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/kafkaproto"
)

// TestUnavailable_EveryVersion: every forwarded API has an answer that its clients decode, in every version, also to a request
// about nothing.
func TestUnavailable_EveryVersion(t *testing.T) {
	for _, e := range kafkaproto.Table() {
		if e.By != kafkaproto.ByControlPlane {
			continue
		}
		for version := e.Served.Min; version <= e.Served.Max; version++ {
			for _, in := range []kmsg.Request{kmsg.RequestForKey(e.Key), anyRequest(e.Key)} {
				in.SetVersion(version)
				out := unavailable(&edge.Request{Key: e.Key, Version: version, Body: in.AppendTo(nil)}, client.ErrUnavailable)
				require.NotNil(t, out, "%s version %d", e.Name, version)
				encoded, decoded := out.AppendTo(nil), in.ResponseKind()
				require.NoError(t, decoded.ReadFrom(encoded), "%s version %d", e.Name, version)
				require.Equal(t, encoded, decoded.AppendTo(nil), "%s version %d", e.Name, version)
			}
		}
	}
}

// TestUnavailable_NamesWhatWasAsked: an answer repeats the names and indexes of its request, and nothing else.
func TestUnavailable_NamesWhatWasAsked(t *testing.T) {
	const message = `"ErrorMessage":"The control plane cannot be reached at the moment."`
	for _, c := range []struct {
		key     kmsg.Key
		version int16
		in, out string // as JSON; out is a part of the answer
	}{
		{
			kmsg.CreateTopics, 7, `{"Topics":[{"Topic":"a","NumPartitions":3,"ReplicationFactor":3,"Configs":[{"Name":"c"}]},{"Topic":"b"}]}`,
			`{"Topics":[{"Topic":"a","ErrorCode":41,` + message + `,"NumPartitions":-1,"ReplicationFactor":-1,"Configs":null},{"Topic":"b"}]}`,
		},
		{kmsg.DeleteTopics, 5, `{"TopicNames":["a","b"]}`, `{"Topics":[{"Topic":"a","ErrorCode":41},{"Topic":"b","ErrorCode":41}]}`},
		{
			kmsg.DeleteTopics, 6, `{"Topics":[{"Topic":"a"},{"TopicID":[1,2,3,0,0,0,0,0,0,0,0,0,0,0,0,0]}]}`,
			`{"Topics":[{"Topic":"a"},{"Topic":null,"TopicID":[1,2,3,0,0,0,0,0,0,0,0,0,0,0,0,0],"ErrorCode":41}]}`,
		},
		{
			kmsg.DescribeConfigs, 4, `{"Resources":[{"ResourceType":"TOPIC","ResourceName":"a","ConfigNames":["c"]}]}`,
			`{"Resources":[{"ResourceType":"TOPIC","ResourceName":"a","ErrorCode":7,` + message + `,"Configs":null}]}`,
		},
		{kmsg.DescribeTopicPartitions, 0, `{"Topics":[{"Topic":"a"}]}`, `{"Topics":[{"Topic":"a","ErrorCode":7,"Partitions":null}]}`},
		{
			kmsg.DeleteRecords, 2, `{"Topics":[{"Topic":"a","Partitions":[{"Partition":4,"Offset":9}]}]}`,
			`{"Topics":[{"Topic":"a","Partitions":[{"Partition":4,"LowWatermark":-1,"ErrorCode":6}]}]}`,
		},
		{
			kmsg.ElectLeaders, 2, `{"Topics":[{"Topic":"a","Partitions":[4,5]}]}`,
			`{"ErrorCode":41,"Topics":[{"Topic":"a","Partitions":[{"Partition":4,"ErrorCode":41},{"Partition":5,"ErrorCode":41}]}]}`,
		},
		{
			kmsg.AlterReplicaLogDirs, 2, `{"Dirs":[{"Topics":[{"Topic":"a","Partitions":[4]}]},{"Topics":[{"Topic":"b","Partitions":[5]}]}]}`,
			`{"Topics":[{"Topic":"a","Partitions":[{"Partition":4,"ErrorCode":7}]},{"Topic":"b","Partitions":[{"Partition":5,"ErrorCode":7}]}]}`,
		},
		{kmsg.JoinGroup, 6, `{"Group":"g","MemberID":"m"}`, `{"ErrorCode":16,"MemberID":"m","Protocol":"","Generation":-1}`},
		{kmsg.JoinGroup, 9, `{"Group":"g","MemberID":"m"}`, `{"ErrorCode":16,"MemberID":"m","Protocol":null}`},
		{kmsg.DescribeGroups, 5, `{"Groups":["g","h"]}`, `{"Groups":[{"Group":"g","ErrorCode":16,"State":""},{"Group":"h"}]}`},
		{kmsg.OffsetDelete, 0, `{"Topics":[{"Topic":"a"}]}`, `{"ErrorCode":16,"Topics":null}`},
		{
			kmsg.OffsetFetch, 7, `{"Group":"g","Topics":[{"Topic":"a","Partitions":[4]}]}`,
			`{"ErrorCode":16,"Topics":[{"Topic":"a","Partitions":[{"Partition":4,"Offset":-1,"LeaderEpoch":-1,"Metadata":"","ErrorCode":16}]}]}`,
		},
		{
			kmsg.OffsetFetch, 8, `{"Groups":[{"Group":"g","Topics":[{"Topic":"a","Partitions":[4]}]}]}`,
			`{"ErrorCode":0,"Groups":[{"Group":"g","ErrorCode":16,"Topics":null}]}`,
		},
		{kmsg.InitProducerID, 4, `{"ProducerID":7,"ProducerEpoch":3}`, `{"ErrorCode":14,"ProducerID":-1,"ProducerEpoch":-1}`},
		{
			kmsg.AddPartitionsToTxn, 3, `{"Topics":[{"Topic":"a","Partitions":[4]}]}`,
			`{"ErrorCode":0,"Topics":[{"Topic":"a","Partitions":[{"Partition":4,"ErrorCode":14}]}]}`,
		},
		{kmsg.AddPartitionsToTxn, 4, `{"Transactions":[{"TransactionalID":"x"}]}`, `{"ErrorCode":14,"Transactions":null}`},
		{
			kmsg.WriteTxnMarkers, 1, `{"Markers":[{"ProducerID":7,"ProducerEpoch":3,"Topics":[{"Topic":"a","Partitions":[4]}]}]}`,
			`{"Markers":[{"ProducerID":7,"Topics":[{"Topic":"a","Partitions":[{"Partition":4,"ErrorCode":6}]}]}]}`,
		},
		{
			kmsg.DescribeTransactions, 0, `{"TransactionalIDs":["x"]}`,
			`{"TransactionStates":[{"TransactionalID":"x","ErrorCode":14,"State":"","ProducerID":0}]}`,
		},
	} {
		in := c.key.Request()
		require.NoError(t, json.Unmarshal([]byte(c.in), in))
		in.SetVersion(c.version)
		out, err := json.Marshal(unavailable(&edge.Request{Key: c.key.Int16(), Version: c.version, Body: in.AppendTo(nil)}, client.ErrUnavailable))
		require.NoError(t, err)
		var got, want any
		require.NoError(t, json.Unmarshal(out, &got))
		require.NoError(t, json.Unmarshal([]byte(c.out), &want))
		require.Equal(t, want, only(got, want), "%s version %d: %s", c.key.Name(), c.version, out)
	}
}

// TestForward_RefusedAtABound: the answer to a request that the owner refused names the bound, and not a lost control plane.
func TestForward_RefusedAtABound(t *testing.T) {
	refusal := fmt.Errorf("%w: metadata is at its bound of memory", client.ErrThrottled)
	to := forwarderFunc(func(context.Context, client.Forward) ([]byte, error) { return nil, refusal })
	in := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	in.Group = "g"
	out := call[*kmsg.ConsumerGroupHeartbeatResponse](t, newForwarded(in.Key(), Config{Forwarder: to, Zones: new(Zones), Log: zap.NewNop()}), 0, in, "me")
	require.Equal(t, kerr.NotCoordinator.Code, out.ErrorCode)
	require.Equal(t, refusal.Error(), *out.ErrorMessage)
}

// only reduces decoded JSON to the fields that want has.
func only(got, want any) any {
	switch want := want.(type) {
	case map[string]any:
		fields, ok := got.(map[string]any)
		if !ok {
			return got
		}
		kept := make(map[string]any)
		for name, value := range want {
			if field, ok := fields[name]; ok {
				kept[name] = only(field, value)
			}
		}
		return kept
	case []any:
		elements, ok := got.([]any)
		if !ok || len(elements) != len(want) {
			return got
		}
		kept := make([]any, len(want))
		for i := range want {
			kept[i] = only(elements[i], want[i])
		}
		return kept
	default:
		return got
	}
}
