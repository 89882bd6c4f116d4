package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/objstore"
)

// Owner is what is needed of the owner of the virtual cluster (package owner).
type Owner interface {
	Propose(ctx context.Context, c metadata.Command) (metadata.Result, uint64, error)
	ReadFrozen(fn func(*metadata.State)) (index uint64, err error)
}

// Settings are what an operator can set. Zero fields take the defaults.
type Settings struct {
	// RetentionCheck is how often retention is looked at (Kafka's log.retention.check.interval.ms). Default 5 min.
	RetentionCheck time.Duration
	// GarbageCheck is how often dead bundles are looked at. Default 1 min.
	GarbageCheck time.Duration
	// GarbageGrace is how long a bundle is dead before its object is deleted, by the cluster's time. It must be longer
	// than agents go on reading by what they knew (5 min). Default 15 min, at least 10.
	GarbageGrace time.Duration
}

// ApplyDefaults fills the fields left zero.
func (s *Settings) ApplyDefaults() {
	setDefault(&s.RetentionCheck, 5*time.Minute)
	setDefault(&s.GarbageCheck, time.Minute)
	setDefault(&s.GarbageGrace, 15*time.Minute)
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// Validate gives all faults at once.
func (s *Settings) Validate() error {
	var errs []error
	if s.RetentionCheck < 0 || s.GarbageCheck < 0 {
		errs = append(errs, errors.New("retention and garbage are looked at in positive intervals"))
	}
	if least := metadata.DeadBundleMinMs * time.Millisecond; s.GarbageGrace < least {
		errs = append(errs, fmt.Errorf("garbage grace %v: at least %v, or readers would miss what they are reading", s.GarbageGrace, least))
	}
	return errors.Join(errs...)
}

// Config of the work for one virtual cluster.
type Config struct {
	Settings     Settings
	Bucket       objstore.Bucket
	BundlePrefix string // of the keys of its bundles
	Log          *zap.Logger
	Registerer   prometheus.Registerer
}

func (c *Config) applyDefaults() {
	c.Settings.ApplyDefaults()
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
}
