package kafka

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/fetch"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/internal/internaltopic"
)

func TestMetadata_InternalTopics(t *testing.T) {
	c := view.NewCatalogue()
	c.ShowInternal()
	c.OnCatalogue(&api.Catalogue{
		Index: 1, Full: true, Membership: &api.Membership{Version: 7, Members: []*api.Member{member(1, "a")}},
		Topics: []*api.Topic{{Id: topicID(1), Name: "alpha", Partitions: 1}},
	})
	m := metadataOf(c, never(t), nil)
	topics := call[*kmsg.MetadataResponse](t, m, 12, metadataRequest("alpha", "__consumer_offsets", "__transaction_state"), "").Topics
	require.Len(t, topics, 3)
	for _, topic := range topics {
		require.Zero(t, topic.ErrorCode)
		require.Equal(t, *topic.Topic != "alpha", topic.IsInternal)
		if topic.IsInternal {
			require.Len(t, topic.Partitions, internaltopic.Partitions)
		}
	}
}

// forwarder answers forwarded requests by a function.
type forwarder func(client.Forward) ([]byte, error)

func (f forwarder) Forward(_ context.Context, r client.Forward) ([]byte, error) { return f(r) }

func TestInternalReader_ReadInternal(t *testing.T) {
	answer := func(n int) []byte {
		out := kmsg.NewPtrFetchResponse()
		out.Version = internalVersion
		topic := kmsg.NewFetchResponseTopic()
		for range n {
			topic.Partitions = append(topic.Partitions, kmsg.NewFetchResponseTopicPartition())
		}
		topic.Partitions[0].HighWatermark, topic.Partitions[0].RecordBatches = 9, []byte("batches")
		topic.Partitions[n-1].ErrorCode = kerr.OffsetOutOfRange.Code
		out.Topics = append(out.Topics, topic)
		return out.AppendTo(nil)
	}
	wants := []fetch.InternalWant{{Partition: 3, Offset: 5, MaxBytes: 10}, {Partition: 4, Offset: 6, MaxBytes: 1000}}
	var connections []uint64
	r := NewInternalReader(forwarder(func(f client.Forward) ([]byte, error) {
		in := kmsg.NewPtrFetchRequest()
		in.Version = f.Version
		require.NoError(t, in.ReadFrom(f.Body))
		require.Equal(t, internaltopic.Offsets.Name, in.Topics[0].Topic)
		require.EqualValues(t, 5, in.Topics[0].Partitions[0].FetchOffset)
		require.EqualValues(t, 100, in.Topics[0].Partitions[1].PartitionMaxBytes)
		connections = append(connections, f.Connection)
		return answer(2), nil
	}))
	for range 2 {
		reads, err := r.ReadInternal(t.Context(), wants, 100)
		require.NoError(t, err)
		require.Equal(t, fetch.InternalRead{HighWatermark: 9, Records: []byte("batches")}, reads[0])
		require.Equal(t, kerr.OffsetOutOfRange, reads[1].Err)
	}
	require.NotEqual(t, connections[0], connections[1], "reads do not wait for each other")
	for _, bad := range []forwarder{
		func(client.Forward) ([]byte, error) { return nil, errors.New("away") },
		func(client.Forward) ([]byte, error) { return []byte{1}, nil },
		func(client.Forward) ([]byte, error) { return answer(1), nil },
	} {
		_, err := NewInternalReader(bad).ReadInternal(t.Context(), wants, 100)
		require.Error(t, err)
	}
}

// As ReplicaManager.appendRecords has it.
func TestProduce_RefusesInternalTopics(t *testing.T) {
	c := view.NewCatalogue()
	c.ShowInternal()
	c.OnCatalogue(&api.Catalogue{Index: 1, Full: true})
	for _, topic := range internaltopic.All() {
		for _, version := range []int16{12, topicIDVersion} {
			r := produceRequest{in: &kmsg.ProduceRequest{Version: version}}
			_, err := r.lookUp(c.Load(), &kmsg.ProduceRequestTopic{Topic: topic.Name, TopicID: topic.ID}, 0)
			require.Equal(t, kerr.InvalidTopicException, err)
		}
	}
}
