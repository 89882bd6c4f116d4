package txn

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
)

// DefaultMaxTimeout is the longest time-out that a transaction may have (transaction.max.timeout.ms).
const DefaultMaxTimeout = 15 * time.Minute

// Config of the transaction APIs of one virtual cluster.
type Config struct {
	// MaxTimeout bounds the time-out that a producer may ask for; default DefaultMaxTimeout.
	MaxTimeout time.Duration
	// Now tells how long transactions have been open; nil: this machine's clock.
	Now func() time.Time
	Log *zap.Logger
}

// ApplyDefaults sets what is zero to its default.
func (c *Config) ApplyDefaults() {
	if c.MaxTimeout == 0 {
		c.MaxTimeout = DefaultMaxTimeout
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
}

// Owner is what the APIs need of the owner of the virtual cluster (package owner).
type Owner interface {
	Propose(ctx context.Context, c metadata.Command) (metadata.Result, uint64, error)
	Read(fn func(*metadata.State)) (index uint64, err error)
	ReadFrozen(fn func(*metadata.State)) (index uint64, err error)
}

// Coordinator answers forwarded requests under one owner. Safe for concurrent use.
type Coordinator struct {
	cfg   Config
	owner Owner
	ids   struct {
		sync.Mutex
		next, end int64 // producer ids reserved by this owner and not given out
	}
}

// New gives the APIs under one owner.
func New(cfg Config, o Owner) *Coordinator {
	cfg.ApplyDefaults()
	return &Coordinator{cfg: cfg, owner: o}
}

// call is one request being answered.
type call struct {
	*Coordinator
	forward *api.Forward
}

// handler answers one decoded request.
type handler func(c *call, ctx context.Context, in kmsg.Request) (kmsg.Response, error)

// handlers by API key.
var handlers = map[int16]handler{
	int16(kmsg.InitProducerID):       on((*call).initProducerID),
	int16(kmsg.AddPartitionsToTxn):   on((*call).addPartitionsToTxn),
	int16(kmsg.AddOffsetsToTxn):      on((*call).addOffsetsToTxn),
	int16(kmsg.EndTxn):               on((*call).endTxn),
	int16(kmsg.WriteTxnMarkers):      on((*call).writeTxnMarkers),
	int16(kmsg.DescribeProducers):    on((*call).describeProducers),
	int16(kmsg.DescribeTransactions): on((*call).describeTransactions),
	int16(kmsg.ListTransactions):     on((*call).listTransactions),
}

// on adapts a handler of one request type.
func on[In kmsg.Request, Out kmsg.Response](h func(*call, context.Context, In) (Out, error)) handler {
	return func(c *call, ctx context.Context, in kmsg.Request) (kmsg.Response, error) {
		return h(c, ctx, in.(In))
	}
}

// Keys gives the API keys answered here.
func (*Coordinator) Keys() []int16 {
	keys := make([]int16, 0, len(handlers))
	for key := range handlers {
		keys = append(keys, key)
	}
	return keys
}

// Handle answers a forwarded request with the response's body. Errors: session.ErrBadRequest if the request cannot be
// decoded or its API is not answered here; else there is no answer for now.
func (c *Coordinator) Handle(ctx context.Context, f *api.Forward) ([]byte, error) {
	h, ok := handlers[int16(f.ApiKey)]
	in := kmsg.RequestForKey(int16(f.ApiKey))
	if !ok || in == nil || f.ApiVersion < 0 || f.ApiVersion > int32(in.MaxVersion()) {
		return nil, fmt.Errorf("%w: api key %d version %d is not answered here", session.ErrBadRequest, f.ApiKey, f.ApiVersion)
	}
	in.SetVersion(int16(f.ApiVersion))
	if err := in.ReadFrom(f.Body); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", session.ErrBadRequest, kmsg.NameForKey(int16(f.ApiKey)), err)
	}
	out, err := h(&call{Coordinator: c, forward: f}, ctx, in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kmsg.NameForKey(int16(f.ApiKey)), err)
	}
	out.SetVersion(int16(f.ApiVersion))
	return out.AppendTo(nil), nil
}

// ref names the transaction that a client's request is about. protocol is that of the request's version.
func (c *call) ref(transactionalID string, producerID int64, epoch int16, protocol int8) metadata.TransactionRef {
	return metadata.TransactionRef{
		TransactionalID: transactionalID, ProducerID: producerID, Epoch: epoch, Version: protocol, AsOf: c.forward.AsOf,
	}
}
