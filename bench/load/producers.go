package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrSpec says that a specification of a load cannot be met.
var ErrSpec = errors.New("load")

// ProducerSpec says what the producers of a worker send.
type ProducerSpec struct {
	Topics   []string  // one producer, with a client of its own, for each entry; topics may repeat
	Options  []kgo.Opt // of each client: bootstrap addresses, batching, buffers
	Keys     Keys      // default: no keys
	Payloads Payloads  // needed by Start
	Senders  int       // goroutines that the producers are divided over; default GOMAXPROCS
	// Name, if set, of a record header that carries the actual send time: nanoseconds since 1970, 8 bytes, big endian.
	// ConsumerSpec has the same.
	SendTimeHeader string
}

// Producers send messages by a schedule.
type Producers struct {
	spec    ProducerSpec
	rate    *Rate
	stats   *Stats
	clients []*kgo.Client

	sends     context.Context    // of messages: outlives the senders, so that what is buffered is sent
	cancel    context.CancelFunc // gives up what is buffered
	stop      context.CancelFunc // of the senders; nil before Start
	senders   sync.WaitGroup
	givingUp  atomic.Bool // errors are of our own making
	unflushed atomic.Int64
	messages  sync.Pool // of *message
}

// NewProducers makes a client for each producer; they connect when they first send.
func NewProducers(spec ProducerSpec, rate *Rate, stats *Stats) (*Producers, error) {
	if len(spec.Topics) == 0 {
		return nil, fmt.Errorf("%w: no topics to produce to", ErrSpec)
	}
	if spec.Senders <= 0 {
		spec.Senders = runtime.GOMAXPROCS(0)
	}
	p := &Producers{spec: spec, rate: rate, stats: stats}
	p.sends, p.cancel = context.WithCancel(context.Background())
	for _, topic := range spec.Topics {
		client, err := kgo.NewClient(append([]kgo.Opt{kgo.DefaultProduceTopic(topic)}, spec.Options...)...)
		if err != nil {
			p.closeClients()
			return nil, fmt.Errorf("make producer for topic %s: %w", topic, err)
		}
		p.clients = append(p.clients, client)
	}
	return p, nil
}

// probe is what the OpenMessaging Benchmark sends first; with the same key everywhere.
func probe() *kgo.Record { return &kgo.Record{Key: []byte("key"), Value: make([]byte, 10)} }

// Probe sends one small message with each producer and waits until all are acknowledged. They count as sent, without
// latency.
func (p *Producers) Probe(ctx context.Context) error {
	var wait sync.WaitGroup
	errs := make([]error, len(p.clients))
	for i, client := range p.clients {
		wait.Add(1)
		client.Produce(ctx, probe(), func(_ *kgo.Record, err error) {
			defer wait.Done()
			if errs[i] = err; err == nil {
				p.stats.Probed()
			}
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("probe topics: %w", err)
	}
	return nil
}

// SetMessages replaces what is sent; for those who probe before they know. It must come before Start.
func (p *Producers) SetMessages(keys Keys, payloads Payloads) {
	p.spec.Keys, p.spec.Payloads = keys, payloads
}

// Start begins to send what the rate asks for, until Stop. It may be called once.
func (p *Producers) Start() error {
	if len(p.spec.Payloads) == 0 {
		return fmt.Errorf("%w: no payloads", ErrSpec)
	}
	ctx, stop := context.WithCancel(p.sends)
	p.stop = stop
	p.messages.New = func() any { return newMessage(p) }
	n := min(p.spec.Senders, len(p.clients))
	for i := range n {
		var mine []*kgo.Client
		for j := i; j < len(p.clients); j += n {
			mine = append(mine, p.clients[j])
		}
		p.senders.Go(func() { p.send(ctx, mine) })
	}
	return nil
}

// send gives the next message to the next of its producers, as long as ctx lasts.
func (p *Producers) send(ctx context.Context, clients []*kgo.Client) {
	key := p.spec.Keys.next()
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	for {
		for _, client := range clients {
			intended, err := p.rate.Take(ctx)
			if err != nil {
				return
			}
			m := p.messages.Get().(*message)
			m.fill(intended, key(), p.spec.Payloads[random.IntN(len(p.spec.Payloads))])
			client.Produce(p.sends, &m.record, m.done)
		}
	}
}

// Stop ends sending, waits until all that is buffered was acknowledged or given up, and closes the clients. When ctx
// ends first, the rest is abandoned, which the error tells.
func (p *Producers) Stop(ctx context.Context) error {
	if p.stop != nil {
		p.stop()
	}
	giveUp := context.AfterFunc(ctx, func() {
		p.givingUp.Store(true)
		p.cancel()
	})
	p.senders.Wait()
	for _, client := range p.clients {
		if err := client.Flush(ctx); err != nil {
			p.unflushed.Add(client.BufferedProduceRecords())
		}
	}
	giveUp()
	p.cancel()
	p.closeClients()
	if n := p.unflushed.Load(); n > 0 {
		return fmt.Errorf("stop producers: %d messages were still buffered: %w", n, ctx.Err())
	}
	return nil
}

func (p *Producers) closeClients() {
	for _, client := range p.clients {
		client.Close()
	}
}

// done takes the answer to a message.
func (p *Producers) done(m *message, err error) {
	switch {
	case err == nil:
		p.stats.Published(len(m.record.Value), m.intended, m.sent, time.Now())
	case p.givingUp.Load():
	default:
		p.stats.PublishFailed(err)
	}
	p.messages.Put(m)
}
