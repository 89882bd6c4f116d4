package clients

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clientLimit bounds one job.
const clientLimit = 3 * time.Minute

// franz is franz-go.
type franz struct{}

var franzCodecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

var franzAcks = map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}

func (franz) client(t testing.TB, j job, options ...kgo.Opt) (*kgo.Client, context.Context, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(strings.Split(j.Bootstrap, ",")...)}, options...)...)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	t.Cleanup(func() { client.Close(); cancel() })
	return client, ctx, nil
}

func (f franz) create(t testing.TB, j job) error {
	t.Helper()
	client, ctx, err := f.client(t, j)
	if err != nil {
		return err
	}
	configs := map[string]*string{}
	for name, value := range j.Configs {
		configs[name] = &value
	}
	_, err = kadm.NewClient(client).CreateTopic(ctx, j.Partitions, 1, configs, j.Topic)
	return err
}

func (f franz) produce(t testing.TB, j job) ([]result, error) {
	t.Helper()
	options := []kgo.Opt{
		kgo.ProducerBatchCompression(franzCodecs[j.Codec]), kgo.RequiredAcks(franzAcks[j.Acks]), kgo.ProducerLinger(20 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(32 << 20), kgo.BrokerMaxWriteBytes(64 << 20),
		kgo.ProduceRequestTimeout(time.Minute),
	}
	if j.BatchBytes > 0 {
		options = append(options, kgo.ProducerBatchMaxBytes(int32(j.BatchBytes)))
	}
	if j.MetadataMs > 0 {
		age := time.Duration(j.MetadataMs) * time.Millisecond
		options = append(options, kgo.MetadataMinAge(age), kgo.MetadataMaxAge(age))
	}
	if !j.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, ctx, err := f.client(t, j, options...)
	if err != nil {
		return nil, err
	}
	records := make([]*kgo.Record, len(j.Records))
	for i, r := range j.Records {
		records[i] = &kgo.Record{Topic: j.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value}
		if r.Timestamp != 0 {
			records[i].Timestamp = time.UnixMilli(r.Timestamp)
		}
		for _, h := range r.Headers {
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader(h))
		}
	}
	at := map[*kgo.Record]int{}
	for i, r := range records {
		at[r] = i
	}
	results := make([]result, len(records))
	pause := time.NewTicker(time.Duration(max(j.PauseMs, 1)) * time.Millisecond)
	defer pause.Stop()
	for i, r := range records {
		if i > 0 && j.PauseMs > 0 {
			<-pause.C
		}
		client.Produce(ctx, r, func(r *kgo.Record, err error) {
			results[at[r]] = result{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli()}
			if err != nil {
				results[at[r]].Error = err.Error()
			}
			if j.Acks == "0" {
				results[at[r]].Offset = -1
			}
		})
	}
	return results, client.Flush(ctx)
}

func (f franz) consume(t testing.TB, j job) ([]record, error) {
	t.Helper()
	start := kgo.NewOffset().AtStart()
	switch j.From {
	case "latest":
		start = kgo.NewOffset().AtEnd()
	case "offset":
		start = kgo.NewOffset().At(j.At)
	case "timestamp":
		start = kgo.NewOffset().AfterMilli(j.At)
	}
	client, ctx, err := f.client(t, j, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{j.Topic: {j.Partition: start}}))
	if err != nil {
		return nil, err
	}
	var records []record
	for len(records) < j.Count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read %d of %d records: %w", len(records), j.Count, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			out := record{
				Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), LogAppend: r.Attrs.TimestampType() == 1,
				Key: r.Key, Value: r.Value,
			}
			for _, h := range r.Headers {
				out.Headers = append(out.Headers, header(h))
			}
			if len(records) < j.Count {
				records = append(records, out)
			}
		})
	}
	return records, nil
}

func (f franz) offsets(t testing.TB, j job) (offsets, error) {
	t.Helper()
	client, ctx, err := f.client(t, j)
	if err != nil {
		return offsets{}, err
	}
	admin := kadm.NewClient(client)
	find := func(list func() (kadm.ListedOffsets, error)) offset {
		listed, failed := list()
		o, _ := listed.Lookup(j.Topic, j.Partition)
		for _, e := range []error{failed, o.Err} {
			if e != nil && err == nil {
				err = e
			}
		}
		return offset{o.Offset, o.Timestamp}
	}
	out := offsets{
		Earliest: find(func() (kadm.ListedOffsets, error) { return admin.ListStartOffsets(ctx, j.Topic) }).Offset,
		Latest:   find(func() (kadm.ListedOffsets, error) { return admin.ListEndOffsets(ctx, j.Topic) }).Offset,
		Max:      find(func() (kadm.ListedOffsets, error) { return admin.ListMaxTimestampOffsets(ctx, j.Topic) }),
	}
	for _, at := range j.Timestamps {
		o := find(func() (kadm.ListedOffsets, error) { return admin.ListOffsetsAfterMilli(ctx, at, j.Topic) })
		if o.Timestamp == -1 { // kadm puts the end where there is no such record
			o.Offset = -1
		}
		out.Times = append(out.Times, o)
	}
	return out, err
}
