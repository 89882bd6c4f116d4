package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
)

// Source asks the owner: client.Session implements it.
type Source interface {
	Prober
	// Lookup asks about partitions as of one log index; answers are in the order asked. It is asked again by the
	// source itself where the stream breaks; an error means that nothing is known.
	Lookup(ctx context.Context, partitions []*api.PartitionLookup) (*api.LookupAnswer, error)
	// Unsubscribe ends notices of the partitions. It does not block on the network, and a Lookup that is called
	// after it returned reaches the owner after it.
	Unsubscribe(partitions []id.TopicPartition)
}

// Config is what Partitions are made of. Zero values mean the defaults.
type Config struct {
	Source Source
	// WindowExtents and WindowBytes bound one partition's window: what of its newest extents is kept for readers at
	// the live edge. Defaults 128 extents and 64 MiB of record bytes that they name.
	WindowExtents int
	WindowBytes   int64
	// MaxExtents bounds the extents and aborted transactions held for all partitions together; beyond, windows shrink
	// to their newest extent and nothing is kept behind them. Default 2 million, 112 MiB.
	MaxExtents int
	// LookupExtents and LookupBytes bound the extents of one partition in one look-up's answer. Defaults 128 and
	// 32 MiB. What does not reach the high watermark within them is read as history, not at the live edge.
	LookupExtents int
	LookupBytes   int64
	// BehindBytes is LookupBytes for readers that go on through history: so far as read-ahead knows its way. Default
	// 256 MiB.
	BehindBytes int64
	// Subscriptions bounds the partitions with a window; further ones take a look-up per read. Default 50000.
	Subscriptions int
	// IdleAfter is how long a partition that nobody reads stays subscribed. Default 1 minute.
	IdleAfter time.Duration
	// StaleFor is how long records that were known when the session stream broke are served while the owner cannot be
	// asked, counted from when they were last known to be current. It must stay well below the 15 minutes that objects
	// are kept after their last reader should have gone (the bundle delete grace), and it bounds how long records of a
	// topic that was deleted meanwhile, or below a log start that moved, can still be read. Default 5 minutes.
	StaleFor time.Duration
	// ProbeInterval is how often the owner is asked for a stamp while fetches are being parked; where all have waited for
	// longer it is asked once a second. Default 100 ms.
	ProbeInterval time.Duration
	// ProbeTimeout bounds the wait for one stamp. Default 2 s.
	ProbeTimeout time.Duration
	Log          *zap.Logger
	Registerer   prometheus.Registerer // nil: a private registry
}

// ApplyDefaults fills in what is zero.
func (c *Config) ApplyDefaults() {
	c.WindowExtents = cmp.Or(c.WindowExtents, 128)
	c.WindowBytes = cmp.Or(c.WindowBytes, 64<<20)
	c.MaxExtents = cmp.Or(c.MaxExtents, 2_000_000)
	c.LookupExtents = cmp.Or(c.LookupExtents, 128)
	c.LookupBytes = cmp.Or(c.LookupBytes, 32<<20)
	c.BehindBytes = cmp.Or(c.BehindBytes, 256<<20)
	c.Subscriptions = cmp.Or(c.Subscriptions, 50_000)
	c.IdleAfter = cmp.Or(c.IdleAfter, time.Minute)
	c.StaleFor = cmp.Or(c.StaleFor, 5*time.Minute)
	c.ProbeInterval = cmp.Or(c.ProbeInterval, 100*time.Millisecond)
	c.ProbeTimeout = cmp.Or(c.ProbeTimeout, 2*time.Second)
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
}

// Validate gives all faults of the configuration, nil if there is none. Call it after ApplyDefaults.
func (c *Config) Validate() error {
	var errs []error
	if c.Source == nil {
		errs = append(errs, errors.New("a source is needed"))
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"window extents", int64(c.WindowExtents)},
		{"window bytes", c.WindowBytes},
		{"max extents", int64(c.MaxExtents)},
		{"lookup extents", int64(c.LookupExtents)},
		{"lookup bytes", c.LookupBytes},
		{"behind bytes", c.BehindBytes},
		{"subscriptions", int64(c.Subscriptions)},
		{"idle after", int64(c.IdleAfter)},
		{"stale for", int64(c.StaleFor)},
		{"probe interval", int64(c.ProbeInterval)},
		{"probe timeout", int64(c.ProbeTimeout)},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("%s must be positive, not %d", n.name, n.value))
		}
	}
	return errors.Join(errs...)
}
