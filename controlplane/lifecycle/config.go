package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// Owner is what is needed of the owner of the virtual cluster (package owner).
type Owner interface {
	Propose(ctx context.Context, c metadata.Command) (metadata.Result, uint64, error)
	Read(fn func(*metadata.State)) (index uint64, err error)
	ReadFrozen(fn func(*metadata.State)) (index uint64, err error)
}

// Agents work on the bucket with the records (errand.Dispatcher). errand.ErrNoAgent means that no agent is left to ask.
type Agents interface {
	// DeleteBundles deletes the objects of at most objstore.MaxKeys bundles. It returns the errors of the objects that stay. All others are
	// gone. After an error, any of the objects may be left.
	DeleteBundles(ctx context.Context, bundles []id.Bundle) (failed map[id.Bundle]error, err error)
	// ListSession returns a page of the objects of a session or job, sorted by n, from the n behind after. A page without objects is the
	// last one.
	ListSession(ctx context.Context, session id.Session, after uint32) (*api.SessionObjects, error)
	// AbortUploads aborts at most objstore.MaxKeys unfinished uploads of a session or job.
	AbortUploads(ctx context.Context, session id.Session) (*api.AbortedUploads, error)
}

// SweepMode is the treatment of orphans: objects of ended agent sessions and jobs that no commit refers to.
type SweepMode string

// The modes.
const (
	SweepDelete SweepMode = "delete"
	SweepOff    SweepMode = "off" // orphans stay for ever: their entries leave the state without a sweep
)

// Settings are what an operator can set. Zero fields take the defaults.
type Settings struct {
	// RetentionCheck is the interval between checks of retention (Kafka's log.retention.check.interval.ms). Default 5 min.
	RetentionCheck time.Duration
	// GarbageCheck is the interval between rounds of garbage collection, orphan sweeps and purges of deleted topics. Default 1 min.
	GarbageCheck time.Duration
	// GarbageGrace is the time from the death of a bundle to the deletion of its object. Agents without a control plane read dead bundles
	// for up to 5 min. Default 15 min, minimum 10 min.
	GarbageGrace time.Duration
	// OrphanSweep is the treatment of orphans. Default SweepDelete.
	OrphanSweep SweepMode
	// OrphanAge is the time from the end of a session or job to its sweep: a PUT of an agent that was paused can come late.
	// Default 24 h.
	OrphanAge time.Duration
	// TopicUndelete is how long a deleted topic can be undeleted. Default 24 h; a negative value purges topics at once.
	TopicUndelete time.Duration
}

// minOrphanAge is above the deadline of any PUT of an agent that works (60 s), with room for one that was paused.
const minOrphanAge = 10 * time.Minute

// ApplyDefaults fills the fields left zero.
func (s *Settings) ApplyDefaults() {
	s.RetentionCheck = cmp.Or(s.RetentionCheck, 5*time.Minute)
	s.GarbageCheck = cmp.Or(s.GarbageCheck, time.Minute)
	s.GarbageGrace = cmp.Or(s.GarbageGrace, 15*time.Minute)
	s.OrphanSweep = cmp.Or(s.OrphanSweep, SweepDelete)
	s.OrphanAge = cmp.Or(s.OrphanAge, 24*time.Hour)
	s.TopicUndelete = cmp.Or(s.TopicUndelete, 24*time.Hour)
}

// UndeleteMs returns TopicUndelete as DeleteTopic.KeepMs.
func (s *Settings) UndeleteMs() int64 { return max(0, s.TopicUndelete.Milliseconds()) }

// Validate returns all errors of the settings, joined.
func (s *Settings) Validate() error {
	var errs []error
	if s.RetentionCheck < 0 || s.GarbageCheck < 0 {
		errs = append(errs, fmt.Errorf("retention check %v and garbage check %v must be positive intervals", s.RetentionCheck, s.GarbageCheck))
	}
	if least := metadata.DeadBundleMinMs * time.Millisecond; s.GarbageGrace < least {
		errs = append(errs, fmt.Errorf("garbage grace %v: at least %v, because agents read deleted bundles for a while", s.GarbageGrace, least))
	}
	if s.OrphanSweep != SweepDelete && s.OrphanSweep != SweepOff {
		errs = append(errs, fmt.Errorf("orphan sweep %q: must be %s or %s", s.OrphanSweep, SweepDelete, SweepOff))
	}
	if s.OrphanAge < minOrphanAge {
		errs = append(errs, fmt.Errorf("orphan age %v: at least %v, or the sweep would miss a PUT that is in flight", s.OrphanAge, minOrphanAge))
	}
	return errors.Join(errs...)
}

// Config configures the Lifecycle of one virtual cluster.
type Config struct {
	Settings   Settings
	Agents     Agents
	StoreTime  func(context.Context) (time.Time, error) // the store's clock
	Log        *zap.Logger
	Registerer prometheus.Registerer
}

func (c *Config) applyDefaults() {
	c.Settings.ApplyDefaults()
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
}
