package clients

import (
	"fmt"
	"testing"
	"time"

	ibm "github.com/IBM/sarama"
)

// sarama is IBM's sarama.
type sarama struct{}

var saramaCodecs = map[string]ibm.CompressionCodec{
	"none": ibm.CompressionNone, "gzip": ibm.CompressionGZIP, "snappy": ibm.CompressionSnappy,
	"lz4": ibm.CompressionLZ4, "zstd": ibm.CompressionZSTD,
}

var saramaAcks = map[string]ibm.RequiredAcks{"0": ibm.NoResponse, "1": ibm.WaitForLocal, "all": ibm.WaitForAll}

func saramaConfig() *ibm.Config {
	c := ibm.NewConfig()
	c.Version = ibm.V4_0_0_0
	return c
}

func (sarama) create(_ testing.TB, j job) error {
	admin, err := ibm.NewClusterAdmin([]string{j.Bootstrap}, saramaConfig())
	if err != nil {
		return err
	}
	defer admin.Close()
	configs := map[string]*string{}
	for name, value := range j.Configs {
		configs[name] = &value
	}
	return admin.CreateTopic(j.Topic, &ibm.TopicDetail{NumPartitions: j.Partitions, ReplicationFactor: 1, ConfigEntries: configs}, false)
}

func (sarama) produce(_ testing.TB, j job) ([]result, error) {
	c := saramaConfig()
	c.Producer.Compression, c.Producer.RequiredAcks = saramaCodecs[j.Codec], saramaAcks[j.Acks]
	c.Producer.Partitioner = ibm.NewManualPartitioner
	c.Producer.Return.Successes, c.Producer.Return.Errors = true, true
	c.Producer.MaxMessageBytes = 32 << 20
	c.Producer.Timeout, c.Net.ReadTimeout = time.Minute, time.Minute
	c.Producer.Flush.Frequency = 20 * time.Millisecond
	if j.Idempotent {
		c.Producer.Idempotent, c.Net.MaxOpenRequests = true, 1
	}
	producer, err := ibm.NewAsyncProducer([]string{j.Bootstrap}, c)
	if err != nil {
		return nil, err
	}
	go func() {
		for i, r := range j.Records {
			m := &ibm.ProducerMessage{Topic: j.Topic, Partition: r.Partition, Metadata: i}
			if r.Timestamp != 0 {
				m.Timestamp = time.UnixMilli(r.Timestamp)
			}
			if r.Key != nil {
				m.Key = ibm.ByteEncoder(r.Key)
			}
			if r.Value != nil {
				m.Value = ibm.ByteEncoder(r.Value)
			}
			for _, h := range r.Headers {
				m.Headers = append(m.Headers, ibm.RecordHeader{Key: []byte(h.Key), Value: h.Value})
			}
			producer.Input() <- m
		}
	}()
	results := make([]result, len(j.Records))
	limit := time.After(clientLimit)
	for range j.Records {
		select {
		case m := <-producer.Successes():
			results[m.Metadata.(int)] = result{Offset: m.Offset, Timestamp: m.Timestamp.UnixMilli()}
			if j.Acks == "0" {
				results[m.Metadata.(int)].Offset = -1
			}
		case failed := <-producer.Errors():
			results[failed.Msg.Metadata.(int)] = result{Offset: -1, Error: failed.Err.Error()}
		case <-limit:
			return nil, fmt.Errorf("not all of %d records were answered in %s", len(j.Records), clientLimit)
		}
	}
	return results, producer.Close()
}

func (s sarama) consume(_ testing.TB, j job) ([]record, error) {
	c := saramaConfig()
	c.Consumer.Return.Errors = true
	c.Consumer.Fetch.Max, c.Consumer.MaxWaitTime = 64<<20, 20*time.Millisecond
	client, err := ibm.NewClient([]string{j.Bootstrap}, c)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	start := j.At
	switch j.From {
	case "earliest":
		start = ibm.OffsetOldest
	case "latest":
		start = ibm.OffsetNewest
	case "timestamp":
		if start, err = client.GetOffset(j.Topic, j.Partition, j.At); err != nil {
			return nil, err
		}
	}
	consumer, err := ibm.NewConsumerFromClient(client)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(j.Topic, j.Partition, start)
	if err != nil {
		return nil, err
	}
	defer partition.Close()
	var records []record
	limit := time.After(clientLimit)
	for len(records) < j.Count {
		select {
		case m := <-partition.Messages():
			records = append(records, saramaRecord(m))
		case failed := <-partition.Errors():
			return nil, failed
		case <-limit:
			return nil, fmt.Errorf("read %d of %d records in %s", len(records), j.Count, clientLimit)
		}
	}
	return records, nil
}

// saramaRecord: sarama does not tell which kind of timestamp it is.
func saramaRecord(m *ibm.ConsumerMessage) record {
	out := record{Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp.UnixMilli(), Key: m.Key, Value: m.Value}
	for _, h := range m.Headers {
		out.Headers = append(out.Headers, header{string(h.Key), h.Value})
	}
	return out
}

// offsets: sarama gives offsets without timestamps, and knows no version that could ask for the largest timestamp.
func (sarama) offsets(_ testing.TB, j job) (offsets, error) {
	client, err := ibm.NewClient([]string{j.Bootstrap}, saramaConfig())
	if err != nil {
		return offsets{}, err
	}
	defer client.Close()
	find := func(at int64) int64 {
		o, failed := client.GetOffset(j.Topic, j.Partition, at)
		if failed != nil && err == nil {
			err = failed
		}
		return o
	}
	out := offsets{Earliest: find(ibm.OffsetOldest), Latest: find(ibm.OffsetNewest), Max: offset{-1, 0}}
	for _, at := range j.Timestamps {
		out.Times = append(out.Times, offset{find(at), 0})
	}
	return out, err
}
