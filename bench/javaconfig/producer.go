package javaconfig

import (
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	mebi = 1 << 20
	// batchOverhead is what a batch takes beside its records' own bytes, in franz-go's account of a request: the header
	// of 61 bytes, framing, and the length fields of one record.
	batchOverhead = 128
	// leastBatch and largest are the bounds that franz-go checks.
	leastBatch = 512
	largest    = 1 << 30
)

// producer maps what producers have; recordBytes is the largest record's size.
func producer(r *reader, recordBytes int) {
	common(r)
	reliability(r)
	batching(r, recordBytes)
	compression(r)
}

// reliability maps acknowledgement, order and time-outs.
func reliability(r *reader) {
	acks := r.choice("acks", "all", "-1", "1", "0")
	all := acks == "all" || acks == "-1"
	inFlight := r.number("max.in.flight.requests.per.connection", 5, 1, math.MaxInt32)
	retries := r.number("retries", math.MaxInt32, 0, math.MaxInt32)
	// Java's client turns idempotence off by itself unless it is asked for, and refuses if it is.
	wanted := r.boolean("enable.idempotence", all && inFlight <= 5 && retries > 0)
	if wanted && (!all || inFlight > 5 || retries == 0) {
		r.fault("enable.idempotence", "needs acks=all, retries above 0 and at most 5 max.in.flight.requests.per.connection")
	}
	switch {
	case wanted && inFlight < 5 && r.has("max.in.flight.requests.per.connection"):
		r.warn("max.in.flight.requests.per.connection=%d: with idempotence this client has 5 in flight per broker, in order all the same", inFlight)
	case !wanted:
		r.use(kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(int(inFlight)))
	}
	if wanted {
		r.use(kgo.AllowIdempotentProduceCancellation()) // delivery.timeout.ms holds for what is in flight too
	}
	switch acks {
	case "1":
		r.use(kgo.RequiredAcks(kgo.LeaderAck()))
	case "0":
		r.use(kgo.RequiredAcks(kgo.NoAck()))
	}
	r.use(kgo.RecordRetries(int(retries)))
	r.use(kgo.ProduceRequestTimeout(r.millis("request.timeout.ms", 30*time.Second, 100*time.Millisecond, 15*time.Minute)))
	r.use(kgo.RecordDeliveryTimeout(r.millis("delivery.timeout.ms", 2*time.Minute, time.Second, math.MaxInt32*time.Millisecond)))
}

// batching maps linger, sizes and how records are spread over partitions.
func batching(r *reader, recordBytes int) {
	r.use(kgo.ProducerLinger(r.millis("linger.ms", 0, 0, time.Minute)))
	size := r.number("batch.size", 16384, 0, math.MaxInt32)
	batch := max(min(size, largest), int64(recordBytes)+batchOverhead, leastBatch)
	// A request of Java's holds at least one batch, whatever its size.
	request := r.within("max.request.size", r.number("max.request.size", mebi, 0, math.MaxInt32), 1024, largest)
	r.use(kgo.ProducerBatchMaxBytes(int32(batch)), kgo.BrokerMaxWriteBytes(int32(min(max(request, batch+1024), largest))))
	// Java bounds the memory of buffers, not the number of records.
	r.use(kgo.MaxBufferedBytes(int(r.number("buffer.memory", 32*mebi, 1, math.MaxInt64))), kgo.MaxBufferedRecords(math.MaxInt32))
	partitioner(r, int(max(1, size)))
}

// partitioner maps KIP-794's, which stays with a partition for batch.size bytes, and the two older ones.
func partitioner(r *reader, stay int) {
	adaptive := r.boolean("partitioner.adaptive.partitioning.enable", true)
	keys := !r.boolean("partitioner.ignore.keys", false)
	class := r.text("partitioner.class")
	switch class[strings.LastIndexByte(class, '.')+1:] {
	case "":
		r.use(kgo.RecordPartitioner(kgo.UniformBytesPartitioner(stay, adaptive, keys, nil)))
	case "RoundRobinPartitioner":
		r.use(kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	case "UniformStickyPartitioner":
		r.use(kgo.RecordPartitioner(kgo.StickyPartitioner()))
	case "DefaultPartitioner":
		r.use(kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	default:
		r.fault("partitioner.class", "allowed are RoundRobinPartitioner, UniformStickyPartitioner and DefaultPartitioner of org.apache.kafka.clients.producer")
	}
}

// compression maps the codec and its level (KIP-390).
func compression(r *reader) {
	levels := map[string]struct{ standard, low, high int64 }{
		"gzip": {-1, -1, 9}, "lz4": {9, 1, 17}, "zstd": {3, -131072, 22},
	}
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	name := r.choice("compression.type", "none", "gzip", "snappy", "lz4", "zstd")
	codec := codecs[name]
	for levelled, l := range levels {
		property := "compression." + levelled + ".level"
		level := r.number(property, l.standard, l.low, l.high)
		if levelled != name || !r.has(property) {
			continue
		}
		if name == "lz4" {
			level = r.within(property, level, 1, 9)
		}
		codec = codec.WithLevel(int(level))
	}
	r.use(kgo.ProducerBatchCompression(codec))
}
