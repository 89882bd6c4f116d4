package txn

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/internal/forwarded"
	"github.com/freshet-io/freshet/internal/pattern"
	"github.com/freshet-io/freshet/metadata"
)

// DefaultMaxTimeout is the longest time-out that a transaction may have (transaction.max.timeout.ms).
const DefaultMaxTimeout = 15 * time.Minute

// Config of the transaction APIs of one virtual cluster.
type Config struct {
	// MaxTimeout bounds the time-out that a producer may ask for; default DefaultMaxTimeout.
	MaxTimeout time.Duration
	// Now tells how long transactions have been open; nil: this machine's clock.
	Now      func() time.Time
	Log      *zap.Logger
	Patterns *pattern.Queue // for regular expressions; nil: one of its own
}

// ApplyDefaults sets what is zero to its default.
func (c *Config) ApplyDefaults() {
	c.MaxTimeout = cmp.Or(c.MaxTimeout, DefaultMaxTimeout)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Patterns = cmp.Or(c.Patterns, new(pattern.Queue))
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

// handlers by API key.
var handlers = forwarded.Handlers[*call]{
	int16(kmsg.InitProducerID):       forwarded.On((*call).initProducerID),
	int16(kmsg.AddPartitionsToTxn):   forwarded.On((*call).addPartitionsToTxn),
	int16(kmsg.AddOffsetsToTxn):      forwarded.On((*call).addOffsetsToTxn),
	int16(kmsg.EndTxn):               forwarded.On((*call).endTxn),
	int16(kmsg.WriteTxnMarkers):      forwarded.On((*call).writeTxnMarkers),
	int16(kmsg.DescribeProducers):    forwarded.On((*call).describeProducers),
	int16(kmsg.DescribeTransactions): forwarded.On((*call).describeTransactions),
	int16(kmsg.ListTransactions):     forwarded.On((*call).listTransactions),
}

// Keys gives the API keys answered here.
func (*Coordinator) Keys() []int16 { return handlers.Keys() }

// Handle answers a forwarded request with the response's body. Errors: as of forwarded.Handlers.
func (c *Coordinator) Handle(ctx context.Context, f *api.Forward) ([]byte, error) {
	return handlers.Handle(ctx, &call{Coordinator: c, forward: f}, f)
}

// ref names the transaction that a client's request is about. protocol is that of the request's version.
func (c *call) ref(transactionalID string, producerID int64, epoch int16, protocol int8) metadata.TransactionRef {
	return metadata.TransactionRef{
		TransactionalID: transactionalID, ProducerID: producerID, Epoch: epoch, Version: protocol, AsOf: c.forward.AsOf,
	}
}
