package cost

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// frameBytes is the size of shape A's batches, and of the floor's writes and reads.
const frameBytes = 100_000

// Load is the work of one client process against the floor or the agent.
type Load struct {
	Kind        LoadKind      `json:"kind"`
	Address     string        `json:"address"`
	TLS         bool          `json:"tls"` // without verification: the certificate was made for this run
	Bytes       int64         `json:"bytes"`
	Rate        int64         `json:"rate"` // bytes/s over all clients; 0 is as fast as it goes
	Connections int           `json:"connections"`
	Topic       string        `json:"topic"`
	Partitions  int           `json:"partitions"`
	RecordBytes int           `json:"record_bytes"`
	BatchBytes  int32         `json:"batch_bytes"`
	Linger      time.Duration `json:"linger"`
}

// LoadKind says what a Load does.
type LoadKind string

// The kinds of load. A tail reads what is being produced meanwhile, a fetch reads the topic from its start again and
// again until it has its bytes.
const (
	FloorReceive LoadKind = "floor-receive"
	FloorSend    LoadKind = "floor-send"
	Produce      LoadKind = "produce"
	Fetch        LoadKind = "fetch"
	Tail         LoadKind = "tail"
)

// LoadResult is what a load did.
type LoadResult struct {
	WireBytes int64         `json:"wire_bytes"` // record-carrying requests or responses as they crossed TCP
	Records   int64         `json:"records"`
	Elapsed   time.Duration `json:"elapsed"`
}

// Run does the load.
func (l Load) Run(ctx context.Context) (LoadResult, error) {
	began := time.Now()
	var result LoadResult
	var err error
	switch l.Kind {
	case FloorReceive, FloorSend:
		result, err = l.runFloor(ctx)
	case Produce:
		result, err = l.produce(ctx)
	case Fetch, Tail:
		result, err = l.consume(ctx)
	default:
		return result, fmt.Errorf("unknown kind of load %q", l.Kind)
	}
	result.Elapsed = time.Since(began)
	return result, err
}

func (l Load) dial(ctx context.Context) (net.Conn, error) {
	if l.TLS {
		return (&tls.Dialer{Config: clientTLS()}).DialContext(ctx, "tcp", l.Address)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", l.Address)
}

func clientTLS() *tls.Config { return &tls.Config{InsecureSkipVerify: true} } //nolint:gosec // a certificate of this run, on loopback

func (l Load) runFloor(ctx context.Context) (LoadResult, error) {
	group, ctx := errgroup.WithContext(ctx)
	share := l.Bytes / int64(l.Connections)
	for range l.Connections {
		group.Go(func() error {
			conn, err := l.dial(ctx)
			if err != nil {
				return err
			}
			defer conn.Close()
			if l.Kind == FloorReceive {
				return sendShare(conn, share)
			}
			return receiveShare(conn, share)
		})
	}
	return LoadResult{WireBytes: share * int64(l.Connections)}, group.Wait()
}

// sendShare feeds the floor's receiving half, and waits until it says that everything is stored.
func sendShare(conn net.Conn, share int64) error {
	frame := randomBytes(frameBytes)
	if _, err := conn.Write([]byte{'p'}); err != nil {
		return err
	}
	for left := share; left > 0; left -= frameBytes {
		if _, err := conn.Write(frame[:min(left, frameBytes)]); err != nil {
			return err
		}
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		if err := half.CloseWrite(); err != nil {
			return err
		}
	}
	var done [1]byte
	_, err := io.ReadFull(conn, done[:])
	return err
}

func receiveShare(conn net.Conn, share int64) error {
	request := binary.BigEndian.AppendUint64([]byte{'f'}, uint64(share))
	if _, err := conn.Write(request); err != nil {
		return err
	}
	got, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(conn, share), make([]byte, 256<<10))
	if err == nil && got != share {
		return io.ErrUnexpectedEOF
	}
	return err
}

// wireCounter counts the bytes of produce requests and fetch responses, framing included.
type wireCounter struct{ produced, fetched atomic.Int64 }

func (w *wireCounter) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, n int, _, _ time.Duration, _ error) {
	if key == 0 {
		w.produced.Add(int64(n))
	}
}

func (w *wireCounter) OnBrokerRead(_ kgo.BrokerMetadata, key int16, n int, _, _ time.Duration, _ error) {
	if key == 1 {
		w.fetched.Add(int64(n))
	}
}

func (l Load) options(w *wireCounter, more ...kgo.Opt) []kgo.Opt {
	options := []kgo.Opt{kgo.SeedBrokers(l.Address), kgo.WithHooks(w)}
	if l.TLS {
		options = append(options, kgo.DialTLSConfig(clientTLS()))
	}
	return append(options, more...)
}

// produce sends records of random bytes without compression, each client to all partitions in turn, batch by batch.
func (l Load) produce(ctx context.Context) (LoadResult, error) {
	var w wireCounter
	var records atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range l.Connections {
		group.Go(func() error {
			client, err := kgo.NewClient(l.options(&w,
				kgo.DefaultProduceTopic(l.Topic),
				kgo.ProducerBatchCompression(kgo.NoCompression()),
				kgo.ProducerBatchMaxBytes(l.BatchBytes),
				kgo.ProducerLinger(l.Linger),
				kgo.MaxBufferedRecords(64*l.Partitions*int(l.BatchBytes)/l.RecordBytes),
				kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
			)...)
			if err != nil {
				return err
			}
			defer client.Close()
			n, err := l.produceWith(ctx, client)
			records.Add(n)
			return err
		})
	}
	err := group.Wait()
	return LoadResult{WireBytes: w.produced.Load(), Records: records.Load()}, err
}

func (l Load) produceWith(ctx context.Context, client *kgo.Client) (int64, error) {
	count := l.Bytes / int64(l.Connections) / int64(l.RecordBytes)
	payload := randomBytes(l.RecordBytes)
	var failed atomic.Pointer[error]
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	}
	pace := newPacer(l.Rate / int64(l.Connections))
	for range count {
		if failed.Load() != nil {
			break
		}
		pace.wait(int64(l.RecordBytes))
		client.Produce(ctx, &kgo.Record{Value: payload}, promise)
	}
	if err := client.Flush(ctx); err != nil {
		return 0, fmt.Errorf("flush: %w", err)
	}
	if err := failed.Load(); err != nil {
		return 0, fmt.Errorf("produce: %w", *err)
	}
	return count, nil
}

// consume splits the partitions over the clients. A fetch starts over at each topic's end with fresh clients.
func (l Load) consume(ctx context.Context) (LoadResult, error) {
	var w wireCounter
	var records atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for c := range l.Connections {
		group.Go(func() error {
			offsets := make(map[int32]kgo.Offset)
			for p := c; p < l.Partitions; p += l.Connections {
				offsets[int32(p)] = kgo.NewOffset().AtStart()
			}
			var got int64
			for share := l.Bytes / int64(l.Connections); got < share; {
				bytes, n, err := l.consumePass(ctx, &w, offsets, share-got)
				records.Add(n)
				got += bytes
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := group.Wait()
	return LoadResult{WireBytes: w.fetched.Load(), Records: records.Load()}, err
}

// consumePass reads the partitions once to their ends, or, for a tail, until want bytes of values came.
func (l Load) consumePass(ctx context.Context, w *wireCounter, offsets map[int32]kgo.Offset, want int64) (got, records int64, err error) {
	client, err := kgo.NewClient(l.options(w,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.Topic: offsets}),
		kgo.FetchMaxBytes(50<<20), kgo.FetchMaxPartitionBytes(1<<20), kgo.FetchMaxWait(500*time.Millisecond),
	)...)
	if err != nil {
		return 0, 0, err
	}
	defer client.Close()
	ended := make(map[int32]bool)
	for got < want && (l.Kind == Tail || len(ended) < len(offsets)) {
		fetches := client.PollFetches(ctx)
		if err := errors.Join(fetchErrors(fetches)...); err != nil {
			return got, records, err
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				got += int64(len(r.Value))
				records++
			}
			if n := len(p.Records); n > 0 && p.Records[n-1].Offset+1 >= p.HighWatermark {
				ended[p.Partition] = true
			}
		})
	}
	return got, records, nil
}

func fetchErrors(fetches kgo.Fetches) []error {
	var errs []error
	for _, e := range fetches.Errors() {
		errs = append(errs, e.Err)
	}
	return errs
}

// pacer spreads bytes evenly in time, in steps coarse enough to cost nothing.
type pacer struct {
	rate  int64
	began time.Time
	sent  int64
}

func newPacer(rate int64) *pacer { return &pacer{rate: rate, began: time.Now()} }

func (p *pacer) wait(n int64) {
	if p.rate <= 0 {
		return
	}
	p.sent += n
	due := time.Duration(float64(p.sent) / float64(p.rate) * float64(time.Second))
	if ahead := due - time.Since(p.began); ahead > 5*time.Millisecond {
		time.Sleep(ahead) // sleeps: a pace is kept by waiting
	}
}

func randomBytes(n int) []byte {
	p := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	return p
}
