package cache

import (
	"cmp"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
)

// Class says on whose account bytes are read and kept.
type Class uint8

const (
	Live    Class = iota // reads at the live edge
	CatchUp              // reads behind it
	classes = 2
)

// String gives the class as metrics show it.
func (c Class) String() string { return [classes]string{"live", "catch_up"}[c] }

const (
	// WholeUnit is how much of a bundle's beginning one GET brings: all of a fresh bundle, as a rule.
	WholeUnit = 16 << 20
	// PartUnit is the unit of larger objects.
	PartUnit = 4 << 20
)

// Bounds of one class.
type Bounds struct {
	Bytes int64 // kept and being read together; a quarter is for what is being read, one unit at least
	Gets  int   // GETs at once
	Rate  int   // GETs per second, after a burst of as many as may be at once; 0: no bound
}

func (b *Bounds) limit() rate.Limit {
	if b.Rate == 0 {
		return rate.Inf
	}
	return rate.Limit(b.Rate)
}

// Config is what a Cache is made of. Zero values mean the defaults.
type Config struct {
	Bucket objstore.Bucket
	// Key names a bundle's object. It is called for every GET.
	Key func(id.Bundle) string
	// Zone is asked before the object store is read; nil: nobody is.
	Zone    Zone
	Live    Bounds // default 256 MiB, 64 GETs
	CatchUp Bounds // default 64 MiB, 16 GETs, 500 a second
	// GetTimeout bounds what one attempt of a GET takes for its first bytes and one unit, or for a further unit.
	// Default 15 s.
	GetTimeout time.Duration
	Log        *zap.Logger
	Registerer prometheus.Registerer // nil: a private registry
}

// ApplyDefaults fills in what is zero.
func (c *Config) ApplyDefaults() {
	c.Live.Bytes = cmp.Or(c.Live.Bytes, 256<<20)
	c.Live.Gets = cmp.Or(c.Live.Gets, 64)
	c.CatchUp.Bytes = cmp.Or(c.CatchUp.Bytes, 64<<20)
	c.CatchUp.Gets = cmp.Or(c.CatchUp.Gets, 16)
	c.CatchUp.Rate = cmp.Or(c.CatchUp.Rate, 500)
	c.GetTimeout = cmp.Or(c.GetTimeout, 15*time.Second)
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
}

// Validate returns an error if a required field is not set.
func (c *Config) Validate() error {
	if c.Bucket == nil || c.Key == nil {
		return errors.New("bucket and key function are needed")
	}
	return nil
}
