package view

import (
	"cmp"
	"context"
	"errors"
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
	// WindowExtents bounds one partition's window, as windowBytes does: what of its newest extents is kept for readers at
	// the live edge. Default 128.
	WindowExtents int
	// MaxExtents bounds the extents and aborted transactions held for all partitions together; beyond, windows shrink
	// to their newest extent and nothing is kept behind them. Default 2 million, 112 MiB.
	MaxExtents int
	// LookupExtents bounds the extents of one partition in one look-up's answer, as lookupBytes does. Default 128. What
	// does not reach the high watermark within both is read as history, not at the live edge.
	LookupExtents int
	// Subscriptions bounds the partitions with a window; further ones take a look-up per read. Default 50000.
	Subscriptions int
	// StaleFor is how long records that were known when the session stream broke are served while the owner cannot be
	// asked, counted from when they were last known to be current. It must stay well below the 15 minutes that objects
	// are kept after their last reader should have gone (the bundle delete grace), and it bounds how long records of a
	// topic that was deleted meanwhile, or below a log start that moved, can still be read. Default 5 minutes.
	StaleFor time.Duration
	// ProbeTimeout bounds the wait for one stamp. Default 2 s.
	ProbeTimeout time.Duration
	Log          *zap.Logger
	Registerer   prometheus.Registerer // nil: a private registry
}

// ApplyDefaults fills in what is zero.
func (c *Config) ApplyDefaults() {
	c.WindowExtents = cmp.Or(c.WindowExtents, 128)
	c.MaxExtents = cmp.Or(c.MaxExtents, 2_000_000)
	c.LookupExtents = cmp.Or(c.LookupExtents, 128)
	c.Subscriptions = cmp.Or(c.Subscriptions, 50_000)
	c.StaleFor = cmp.Or(c.StaleFor, 5*time.Minute)
	c.ProbeTimeout = cmp.Or(c.ProbeTimeout, 2*time.Second)
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
}

// Validate returns an error if a required field is not set.
func (c *Config) Validate() error {
	if c.Source == nil {
		return errors.New("a source is needed")
	}
	return nil
}
