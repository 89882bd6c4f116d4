package harness

import (
	"context"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Direct speaks with one agent only, whatever Metadata says: any agent takes any partition. Nothing is tried again.
type Direct struct {
	client *kgo.Client
	broker *kgo.Broker
}

// Dial makes a Direct; the connection is made by its first request.
func Dial(address string) (*Direct, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(address), kgo.RequestRetries(0),
		kgo.MaxVersions(kversion.V2_8_0()), // versions that name topics instead of giving their ids
	)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", address, err)
	}
	return &Direct{client: client, broker: client.SeedBrokers()[0]}, nil
}

// Close ends the connection.
func (d *Direct) Close() { d.client.Close() }

// Produce writes one record without a producer id, once, and gives its offset.
func (d *Direct) Produce(ctx context.Context, topic string, partition int32, value string) (int64, error) {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 60_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, RecordBatch(value)
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := d.broker.Request(ctx, req)
	if err != nil {
		return 0, err
	}
	answer := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return answer.BaseOffset, kerr.ErrorForCode(answer.ErrorCode)
}

// RecordBatch is a batch of one record.
func RecordBatch(value string) []byte {
	record := kmsg.Record{Value: []byte(value)}
	body := record.AppendTo(nil)
	record.Length = int32(len(body) - 1) // the length itself takes one byte while it is 0
	now := time.Now().UnixMilli()
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1, Records: record.AppendTo(nil),
	}
	batch.Length = int32(len(batch.AppendTo(nil)) - 12)
	const crcFrom = 21 // the checksum is of everything behind it
	batch.CRC = int32(crc32.Checksum(batch.AppendTo(nil)[crcFrom:], crc32.MakeTable(crc32.Castagnoli)))
	return batch.AppendTo(nil)
}
