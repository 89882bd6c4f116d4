package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ProduceConfig has the settings of `freshet produce`.
type ProduceConfig struct {
	ClientConfig
	Topic        string
	KeySeparator string   // splits a line into key and value at its first occurrence; "" means no keys
	NullMarker   string   // a key or value equal to it is null; "" means none is
	Headers      []string // name=value, put on every record
	Partition    int32    // produce to this partition only; -1 chooses by key, or by batch where there is none
	Compression  string   // none, gzip, snappy, lz4, zstd; default none
	Acks         string   // all, 1, 0; default all
	Idempotent   bool     // retries never write twice; needs acks all
	Linger       time.Duration
	MaxLine      int // longest line in bytes; default 16 MiB
	Verbose      bool
}

// ApplyDefaults fills in fields that are not set.
func (c *ProduceConfig) ApplyDefaults() {
	c.ClientConfig.ApplyDefaults()
	if c.Compression == "" {
		c.Compression = "none"
	}
	if c.Acks == "" {
		c.Acks = "all"
	}
	if c.MaxLine == 0 {
		c.MaxLine = 16 << 20
	}
	if c.Linger == 0 {
		c.Linger = 5 * time.Millisecond
	}
}

// deliveryTimeout is the maximum time of a record from its line to its acknowledgement, as of Kafka's delivery.timeout.ms.
const deliveryTimeout = 2 * time.Minute

// codecs are the values of ProduceConfig.Compression.
var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// Produce sends each line of the input as one record, in order, and returns when all are acknowledged. Lines end
// with a newline, which is not part of the record; the last may lack one. The first error stops it. An error counts every record
// that was sent and not acknowledged.
func Produce(ctx context.Context, c ProduceConfig, s Streams) error {
	c.ApplyDefaults()
	c.persists = true
	opts, err := c.options()
	if err != nil {
		return err
	}
	line, err := c.lineParser()
	if err != nil {
		return err
	}
	if err := c.Locate(ctx); err != nil {
		return err
	}
	w := &waiting{topic: c.Topic, at: strings.Join(c.Bootstrap, ","), patience: c.patience, out: s.Err}
	stopReport := c.reportSilence(s.Err, &w.failures)
	defer stopReport()
	largest, err := c.largestBatch(ctx, kgo.WithLogger(w))
	if err != nil {
		return err
	}
	opts = append(opts, kgo.ProducerBatchMaxBytes(largest), kgo.WithLogger(w))
	client, err := c.dial(ctx, opts...)
	stopReport()
	if err != nil {
		return err
	}
	defer client.Close()

	p := producer{config: c, client: client}
	stopped := ctx
	ctx, p.stop = context.WithCancelCause(ctx)
	defer p.stop(nil)
	watching, stopWatching := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { w.watch(watching, &p) })
	readErr := eachLine(s.In, c.MaxLine, func(b []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.send(ctx, line(b))
		return nil
	})
	flushErr := client.Flush(ctx)
	stopWatching()
	watch.Wait() // it writes to the same stream
	if flushErr != nil {
		client.Close() // fails the records that still wait
	}
	p.open.Wait()
	acked, failed, first := p.outcome()
	if s.json() {
		if err := s.WriteJSON(produced{c.Topic, acked, failed}); err != nil {
			return err
		}
	}
	if c.Verbose {
		fmt.Fprintf(s.Err, "%s acknowledged, %d failed\n", count(int64(acked), "record"), failed)
	}
	switch {
	case failed > 0 && stopped.Err() != nil:
		return fmt.Errorf("stopped: %d of %s not acknowledged", failed, count(int64(acked+failed), "record"))
	case errors.Is(first, kgo.ErrRecordTimeout):
		return inWords(first, "%d of %s not acknowledged within %s: %s", failed, count(int64(acked+failed), "record"), durationText(deliveryTimeout), w.cause())
	case first != nil:
		return fmt.Errorf("%d of %s not acknowledged: %w", failed, count(int64(acked+failed), "record"), explainWrite(c.Topic, first))
	case ctx.Err() != nil:
		return nil // stopped between two lines
	case readErr != nil:
		return fmt.Errorf("%w; %s acknowledged", readErr, count(int64(acked), "record"))
	case flushErr != nil:
		return fmt.Errorf("wait for acknowledgement: %w", flushErr)
	}
	return nil
}

func (c *ProduceConfig) options() ([]kgo.Opt, error) {
	codec, ok := codecs[c.Compression]
	if !ok {
		return nil, usagef("--compression %q: want none, gzip, snappy, lz4 or zstd", c.Compression)
	}
	opts := []kgo.Opt{
		kgo.DefaultProduceTopic(c.Topic),
		kgo.AllowAutoTopicCreation(), // whether it happens is the cluster's to decide
		kgo.ProducerBatchCompression(codec),
		kgo.ProducerLinger(c.Linger),
		kgo.RecordDeliveryTimeout(deliveryTimeout),
		kgo.UnknownTopicRetries(3),
		kgo.MetadataMinAge(time.Second), // a refused batch is sent again after the next Metadata
	}
	acks := map[string]kgo.Acks{"all": kgo.AllISRAcks(), "-1": kgo.AllISRAcks(), "1": kgo.LeaderAck(), "0": kgo.NoAck()}
	level, ok := acks[c.Acks]
	if !ok {
		return nil, usagef("--acks %q: want all, 1 or 0", c.Acks)
	}
	opts = append(opts, kgo.RequiredAcks(level))
	if c.Idempotent && level != kgo.AllISRAcks() {
		return nil, usagef("--idempotent needs --acks all; add --idempotent=false")
	}
	if !c.Idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	if c.Partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return opts, nil
}

// Bounds of a batch, which one line may fill. The default is Kafka's default of max.message.bytes. The largest is the client's
// largest request, less the bytes around the batch.
const (
	defaultBatch = 1 << 20
	maxBatch     = 100<<20 - 1<<20
)

// largestBatch returns the topic's max.message.bytes; the default where there is no topic yet, or it may not be asked.
func (c *ProduceConfig) largestBatch(ctx context.Context, opts ...kgo.Opt) (int32, error) {
	client, err := c.dial(ctx, opts...)
	if err != nil {
		return 0, err
	}
	admin := kadm.NewClient(client)
	defer admin.Close()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	answers, err := admin.DescribeTopicConfigs(ctx, c.Topic)
	if err != nil || len(answers) != 1 || answers[0].Err != nil {
		return defaultBatch, nil // producing fails for the same reason
	}
	for _, config := range answers[0].Configs {
		if config.Key == "max.message.bytes" {
			if n, err := strconv.ParseInt(config.MaybeValue(), 10, 32); err == nil && n > 0 {
				return int32(min(n, maxBatch)), nil
			}
		}
	}
	return defaultBatch, nil
}

// lineParser returns the function that makes a record of a line.
func (c *ProduceConfig) lineParser() (func([]byte) *kgo.Record, error) {
	var headers []kgo.RecordHeader
	for _, h := range c.Headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok || name == "" {
			return nil, usagef("--header %q: want name=value", h)
		}
		headers = append(headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	separator, marker := []byte(c.KeySeparator), []byte(c.NullMarker)
	nullable := func(b []byte) []byte {
		if len(marker) > 0 && bytes.Equal(b, marker) {
			return nil
		}
		return b
	}
	return func(line []byte) *kgo.Record {
		r := &kgo.Record{Topic: c.Topic, Partition: c.Partition, Headers: headers}
		if len(separator) > 0 {
			if key, value, ok := bytes.Cut(line, separator); ok {
				r.Key, r.Value = nullable(key), nullable(value)
				return r
			}
		}
		r.Value = nullable(line)
		return r
	}, nil
}

// produced is the result of `freshet produce`.
type produced struct {
	Topic        string `json:"topic"`
	Acknowledged int    `json:"acknowledged"`
	Failed       int    `json:"failed"` // not acknowledged, though some may be stored
}

// producer counts the results of the records sent.
type producer struct {
	config ProduceConfig
	client *kgo.Client
	stop   context.CancelCauseFunc
	open   sync.WaitGroup // records without a result

	mu struct {
		sync.Mutex
		acked, failed int
		first         error
	}
}

func (p *producer) send(ctx context.Context, r *kgo.Record) {
	p.open.Add(1)
	p.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
		defer p.open.Done()
		p.mu.Lock()
		defer p.mu.Unlock()
		if err == nil {
			p.mu.acked++
			return
		}
		p.mu.failed++
		if p.mu.first == nil {
			p.mu.first = err
			p.stop(err)
		}
	})
}

func (p *producer) outcome() (acked, failed int, first error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.acked, p.mu.failed, p.mu.first
}

// eachLine calls fn with every line, without its newline, in a buffer of its own.
func eachLine(r io.Reader, limit int, fn func([]byte) error) error {
	in := bufio.NewReaderSize(r, 256<<10)
	for n := 1; ; n++ {
		line, err := readLine(in, limit)
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return fmt.Errorf("read line %d: %w", n, err)
		}
		if last && len(line) == 0 {
			return nil
		}
		if err := fn(bytes.TrimSuffix(line, []byte("\n"))); err != nil || last {
			return err
		}
	}
}

// readLine reads up to and with the next newline.
func readLine(in *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, fmt.Errorf("longer than %d bytes (--max-line)", limit)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
