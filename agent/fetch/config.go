package fetch

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// Views plans reads: view.Partitions implements it.
type Views interface {
	Plan(ctx context.Context, wants []view.Want, plans []view.Plan) error
	PlanAnew(ctx context.Context, wants []view.Want, plans []view.Plan) error
	Confirm(ctx context.Context) error
	Invalidate(id.TopicPartition)
	Park(w *view.Waiter, tp id.TopicPartition, seen view.Watermarks)
	Leave(w *view.Waiter, tp id.TopicPartition)
	Parked(delta int64)
}

// Bytes gives extents' bytes: cache.Cache implements it.
type Bytes interface {
	ResidentPart(cache.Part) (*cache.Bytes, bool, error)
	ReadPart(context.Context, cache.Part, cache.Class) (*cache.Bytes, error)
	Start(*extent.Extent, cache.Class)
	// Ahead begins what a reader behind the live edge will want, and tells where the first of each partition is.
	Ahead(reader uint64, nexts []cache.Next) []cache.State
	// Locate gives a position for a part to begin at, or begins to find out.
	Locate(cache.Part) (position uint32, known bool)
	// ReadAhead is how many bytes one reader may have read ahead without driving out what others will need.
	ReadAhead() int64
	// SeekTime gives a position to begin at to find a timestamp in an extent.
	SeekTime(ctx context.Context, e *extent.Extent, ts int64, class cache.Class) (uint32, error)
}

// Config is what a Fetcher is made of. Zero values mean the defaults.
type Config struct {
	Views Views
	Bytes Bytes
	// Internal reads internal topics. Nil: reads of them are refused.
	Internal Internal
	// UnsentBytes bounds the record bytes of answers that clients have not taken yet: beyond, answers shrink to the
	// first batch; beyond twice as many, fetches wait. Default 64 MiB.
	UnsentBytes int64
	// RequestBytes bounds the memory of fetches from the decoding of the request to the answer. Beyond three quarters, fetches
	// are answered without a wait for records. Default 64 MiB.
	RequestBytes int64
	// Pressed tells of another reason to shrink answers: what they pin in memory. Nil means never.
	Pressed func() bool
	// Reclaim is called every 50 ms while fetches wait because answers hold too much. It closes the connections of clients
	// that do not take their answers. Nil means that there is nothing to call.
	Reclaim func()
	// MaxBytes bounds an answer's record bytes, but for the first batch (Kafka's fetch.max.bytes). Default 55 MiB.
	MaxBytes int
	// AskTimeout bounds one look-up or probe. It is waited at most once past a request's max wait. Default 2 s.
	AskTimeout time.Duration
	// ReadTimeout bounds what a fetch waits for the object store. Default 20 s, below clients' request time-out.
	ReadTimeout time.Duration
	Log         *zap.Logger
	Registerer  prometheus.Registerer // nil: a private registry
}

// ApplyDefaults fills in what is zero.
func (c *Config) ApplyDefaults() {
	c.MaxBytes = cmp.Or(c.MaxBytes, 55<<20)
	c.AskTimeout = cmp.Or(c.AskTimeout, 2*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 20*time.Second)
	c.UnsentBytes = cmp.Or(c.UnsentBytes, 64<<20)
	c.RequestBytes = cmp.Or(c.RequestBytes, 64<<20)
	if c.Pressed == nil {
		c.Pressed = func() bool { return false }
	}
	if c.Reclaim == nil {
		c.Reclaim = func() {}
	}
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
}

// Validate returns an error if a required field is not set.
func (c *Config) Validate() error {
	if c.Views == nil || c.Bytes == nil {
		return errors.New("views and bytes are needed")
	}
	return nil
}
