package faults

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/freshet-io/freshet/test/harness"
)

// direct speaks with one agent only, whatever Metadata says: any agent takes any partition.
type direct struct {
	broker      *kgo.Broker
	connections atomic.Int32 // made so far
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (d *direct) OnBrokerConnect(kgo.BrokerMetadata, time.Duration, net.Conn, error) {
	d.connections.Add(1)
}

func dial(t *testing.T, address string) *direct {
	t.Helper()
	// Versions that name topics instead of giving their ids.
	d := &direct{}
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.RequestRetries(0), kgo.MaxVersions(kversion.V2_8_0()),
		kgo.WithHooks(d))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	d.broker = client.SeedBrokers()[0]
	return d
}

// request sends one request and gives its answer.
func request[Resp kmsg.Response](ctx context.Context, d *direct, req kmsg.Request) (Resp, error) {
	resp, err := d.broker.Request(ctx, req)
	if err != nil {
		var none Resp
		return none, err
	}
	return resp.(Resp), nil
}

// produce writes one record without a producer id, once, and gives its offset.
func (d *direct) produce(ctx context.Context, topic string, partition int32, value string) (int64, error) {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 60_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, harness.RecordBatch(value)
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := request[*kmsg.ProduceResponse](ctx, d, req)
	if err != nil {
		return 0, err
	}
	answer := resp.Topics[0].Partitions[0]
	return answer.BaseOffset, kerr.ErrorForCode(answer.ErrorCode)
}

// end asks for the latest offset.
func (d *direct) end(ctx context.Context, topic string, partition int32) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, -1, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := request[*kmsg.ListOffsetsResponse](ctx, d, req)
	if err != nil {
		return 0, err
	}
	answer := resp.Topics[0].Partitions[0]
	return answer.Offset, kerr.ErrorForCode(answer.ErrorCode)
}

// fetched is one partition's part of a Fetch answer.
type fetched struct {
	highWatermark int64
	values        []string
	offsets       []int64
}

// fetch reads from an offset, waiting for records at most that long.
func (d *direct) fetch(ctx context.Context, topic string, partition int32, offset int64, wait time.Duration) (fetched, error) {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxWaitMillis, req.MinBytes = -1, int32(wait.Milliseconds()), 1
	req.MaxBytes, req.SessionEpoch = 1<<20, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = partition, offset, 1<<20, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := request[*kmsg.FetchResponse](ctx, d, req)
	if err != nil {
		return fetched{}, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return fetched{}, err
	}
	answer := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return fetched{}, err
	}
	records, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: offset, Topic: topic, Partition: partition,
	}, &answer, nil, nil)
	if records.Err != nil {
		return fetched{}, fmt.Errorf("read batches: %w", records.Err)
	}
	f := fetched{highWatermark: answer.HighWatermark}
	for _, r := range records.Records {
		f.values, f.offsets = append(f.values, string(r.Value)), append(f.offsets, r.Offset)
	}
	return f, nil
}

// roundTrip writes a record through one agent into a topic of its own and reads it there.
func roundTrip(t *testing.T, address string) {
	t.Helper()
	topic := fmt.Sprintf("round-trip-%d", topics.Add(1))
	createTopic(t, topic, 1, address)
	ctx, cancel := context.WithTimeout(t.Context(), finishing)
	defer cancel()
	d := dial(t, address)
	offset, err := d.produce(ctx, topic, 0, "there and back")
	require.NoError(t, err)
	got, err := d.fetch(ctx, topic, 0, offset, time.Second)
	require.NoError(t, err)
	require.Equal(t, []string{"there and back"}, got.values)
}
