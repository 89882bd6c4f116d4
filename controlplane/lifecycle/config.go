package lifecycle

import (
	"cmp"
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
	Read(fn func(*metadata.State)) (index uint64, err error)
	ReadFrozen(fn func(*metadata.State)) (index uint64, err error)
}

// SweepMode is the treatment of orphans: objects of ended agent sessions and jobs that no commit made known.
type SweepMode string

// The modes.
const (
	SweepDelete SweepMode = "delete"
	SweepOff    SweepMode = "off" // they stay, and are forgotten
)

// Settings are what an operator can set. Zero fields take the defaults.
type Settings struct {
	// RetentionCheck is how often retention is looked at (Kafka's log.retention.check.interval.ms). Default 5 min.
	RetentionCheck time.Duration
	// GarbageCheck is how often dead bundles are looked at. Default 1 min.
	GarbageCheck time.Duration
	// GarbageGrace is how long a bundle is dead before its object is deleted, by the cluster's time. It must be longer
	// than agents go on reading by what they knew (5 min). Default 15 min, at least 10.
	GarbageGrace time.Duration
	// OrphanSweep is the treatment of orphans. Default SweepDelete.
	OrphanSweep SweepMode
	// OrphanAge is the time from the end of a session or job to its sweep: a PUT of an agent that was paused can come late.
	// Default 24 h.
	OrphanAge time.Duration
	// TopicUndelete is how long the deletion of a topic can be taken back; default 24 h, negative: not at all.
	TopicUndelete time.Duration
}

// ApplyDefaults fills the fields left zero.
func (s *Settings) ApplyDefaults() {
	s.RetentionCheck = cmp.Or(s.RetentionCheck, 5*time.Minute)
	s.GarbageCheck = cmp.Or(s.GarbageCheck, time.Minute)
	s.GarbageGrace = cmp.Or(s.GarbageGrace, 15*time.Minute)
	s.OrphanSweep = cmp.Or(s.OrphanSweep, SweepDelete)
	s.OrphanAge = cmp.Or(s.OrphanAge, 24*time.Hour)
	s.TopicUndelete = cmp.Or(s.TopicUndelete, 24*time.Hour)
}

// UndeleteMs is TopicUndelete as commands have it.
func (s *Settings) UndeleteMs() int64 { return max(0, s.TopicUndelete.Milliseconds()) }

// Validate gives all faults at once.
func (s *Settings) Validate() error {
	var errs []error
	if s.RetentionCheck < 0 || s.GarbageCheck < 0 {
		errs = append(errs, errors.New("retention and garbage are looked at in positive intervals"))
	}
	if least := metadata.DeadBundleMinMs * time.Millisecond; s.GarbageGrace < least {
		errs = append(errs, fmt.Errorf("garbage grace %v: at least %v, or readers would miss what they are reading", s.GarbageGrace, least))
	}
	if s.OrphanSweep != SweepDelete && s.OrphanSweep != SweepOff {
		errs = append(errs, fmt.Errorf("orphan sweep %q: %s or %s", s.OrphanSweep, SweepDelete, SweepOff))
	}
	if s.OrphanAge < 0 {
		errs = append(errs, fmt.Errorf("orphans are swept %v after the end of a session: at least 0", s.OrphanAge))
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
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
}
