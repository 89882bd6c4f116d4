package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/bench/wire"
	"github.com/freshet-io/freshet/internal/wait"
)

// Versions spoken: the last ones with the old headers.
const (
	metadataVersion = 8
	fetchVersion    = 11
)

const (
	// parkedFor is how long a fetch waits. Clients' default is a tenth, but then they are not idle.
	parkedFor = 5 * time.Second
	// dialing bounds the clients that connect at once.
	dialing = 64
	// looking is how many refreshes there are for each whose answer is decoded.
	looking = 50
	// redials bounds how often a client looks for another agent in one refresh.
	redials = 20
)

// clients is a process with many idle clients. /refresh has them all ask for Metadata.
type clients struct {
	Addresses  []string `json:"addresses"`
	Clients    int      `json:"clients"`
	Fetchers   int      `json:"fetchers"`
	Topics     int      `json:"topics"`
	Partitions int      `json:"partitions"`

	mu    sync.Mutex
	round *round
	next  chan struct{} // closed when there is another round
}

// round is one refresh of all clients.
type round struct {
	began     time.Time
	window    time.Duration
	addresses []string
	left      sync.WaitGroup

	mu     sync.Mutex
	result refreshed
	took   *hdrhistogram.Histogram // microseconds
}

// refreshed is what came of it.
type refreshed struct {
	Answers int64   `json:"answers"`
	Failed  int64   `json:"failed"`
	Fault   string  `json:"fault"` // the last one
	Bytes   int64   `json:"bytes"` // of answers
	P99     float64 `json:"p99"`   // ms
}

func (c *clients) run(ctx context.Context, out io.Writer) error {
	c.next = make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	var connecting errgroup.Group
	connecting.SetLimit(dialing)
	list := make([]*client, c.Clients)
	for i := range list {
		list[i] = &client{all: c, number: i, fetches: i < c.Fetchers}
		connecting.Go(func() error {
			_, err := list[i].connect(ctx, c.Addresses[i%len(c.Addresses)], true)
			return err
		})
	}
	if err := connecting.Wait(); err != nil {
		return err
	}
	for _, client := range list {
		group.Go(func() error { return client.stay(ctx) })
	}
	group.Go(func() error {
		return serve(ctx, out, "/refresh", func(r *http.Request) (any, error) { return c.refresh(r) })
	})
	return group.Wait()
}

// refresh begins a round and waits for its end.
func (c *clients) refresh(r *http.Request) (refreshed, error) {
	window, err := time.ParseDuration(r.FormValue("window"))
	if err != nil {
		return refreshed{}, fmt.Errorf("window: %w", err)
	}
	next := &round{
		began: time.Now(), window: window, addresses: r.Form["address"], took: hdrhistogram.New(1, time.Minute.Microseconds(), 3),
	}
	next.left.Add(c.Clients)
	c.mu.Lock()
	c.round = next
	close(c.next)
	c.next = make(chan struct{})
	c.mu.Unlock()
	next.left.Wait()
	next.mu.Lock()
	defer next.mu.Unlock()
	next.result.P99 = float64(next.took.ValueAtQuantile(99)) / 1000
	return next.result, nil
}

// wait gives the round after the one seen, and what is closed when there is another.
func (c *clients) wait() (current *round, next <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.round, c.next
}

// client is one connection.
type client struct {
	all     *clients
	number  int
	fetches bool
	conn    *wire.Conn
}

func (c *client) topic() string { return topicName(c.number % c.all.Topics) }

// connect dials an agent, asks what clients ask first, and gives the size of the Metadata. The connection is closed when ctx
// ends.
func (c *client) connect(ctx context.Context, address string, look bool) (size int, err error) {
	conn, err := wire.Dial(ctx, address)
	if err != nil {
		return 0, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	c.conn = conn
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version = 2
	if err := c.conn.Ask(versions, kmsg.NewPtrApiVersionsResponse()); err != nil {
		return 0, err
	}
	return c.metadata(look)
}

// stay fetches or is silent, and takes part in every round, until ctx ends.
func (c *client) stay(ctx context.Context) error {
	var seen *round
	for ctx.Err() == nil {
		current, next := c.all.wait()
		if current != seen {
			seen = current
			c.takePart(ctx, current)
			continue
		}
		if c.fetches && c.fetch() == nil {
			continue
		}
		// Without a fetch, or with one that failed: its agent goes away, which the next round finds out.
		select {
		case <-next:
		case <-ctx.Done():
		}
	}
	return nil
}

// takePart refreshes at some moment of the window. A client whose agent is gone connects to another.
func (c *client) takePart(ctx context.Context, r *round) {
	defer r.left.Done()
	at := r.began.Add(time.Duration(rand.Int64N(int64(r.window) + 1)))
	if wait.For(ctx, time.Until(at)) != nil {
		return
	}
	began := time.Now()
	size, err := c.metadata(c.number%looking == 0)
	for try := 0; err != nil && try < redials && wait.For(ctx, time.Duration(try)*100*time.Millisecond) == nil; try++ {
		_ = c.conn.Close()
		size, err = c.connect(ctx, r.addresses[rand.IntN(len(r.addresses))], false)
	}
	r.add(size, time.Since(began), err)
}

func (r *round) add(size int, took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.result.Failed++
		r.result.Fault = err.Error()
		return
	}
	r.result.Answers++
	r.result.Bytes += int64(size)
	_ = r.took.RecordValue(took.Microseconds()) // what is longer than the range is of no interest
}

var (
	errMetadata = errors.New("metadata without the topic's partitions")
	errFetch    = errors.New("fetch answered without the partition")
)

// metadata asks for the client's topic, and looks into the answer or only gives its size.
func (c *client) metadata(look bool) (size int, err error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = metadataVersion
	name := c.topic()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	if !look {
		return c.conn.AskUnread(req)
	}
	resp := kmsg.NewPtrMetadataResponse()
	if err := c.conn.Ask(req, resp); err != nil {
		return 0, err
	}
	if len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != 0 || len(resp.Topics[0].Partitions) != c.all.Partitions || len(resp.Brokers) == 0 {
		return 0, fmt.Errorf("%w: %+v", errMetadata, resp)
	}
	return len(resp.AppendTo(nil)), nil
}

// fetch waits at the end of a partition, where nothing comes. An agent that is about to go answers with an error.
func (c *client) fetch() error {
	req := kmsg.NewPtrFetchRequest()
	req.Version = fetchVersion
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(parkedFor.Milliseconds()), 1, 1<<20
	req.SessionEpoch = -1 // no session
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.Partition, partition.PartitionMaxBytes, partition.CurrentLeaderEpoch = int32(c.number%c.all.Partitions), 1<<20, -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.Partitions = c.topic(), []kmsg.FetchRequestTopicPartition{partition}
	req.Topics = []kmsg.FetchRequestTopic{topic}
	resp := kmsg.NewPtrFetchResponse()
	if err := c.conn.Ask(req, resp); err != nil {
		return err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return fmt.Errorf("%w: %d", errFetch, resp.ErrorCode)
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}
