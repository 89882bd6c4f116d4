package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// Owner is where jobs come from and outcomes go to (client.Session).
type Owner interface {
	JobProgress(n id.Session, bytes int64)
	CompleteJob(ctx context.Context, n id.Session, outcome []byte, last bool) error
	AbortJob(ctx context.Context, n id.Session, reason string, corrupt []id.Bundle) error
}

// Work does what a plan says. All objects that the outcome names are durable when it returns. progress is told the bytes
// of the inputs worked off so far, from any goroutine, until Work returns.
type Work func(ctx context.Context, plan *job.Plan, progress func(bytes int64)) (job.Outcome, error)

// CorruptInputs is what an error of Work may be, or wrap, to name the input bundles that cannot be read.
type CorruptInputs interface{ CorruptInputs() []id.Bundle }

// Config of a Runner. Zero fields take the defaults named.
type Config struct {
	Owner Owner
	Work  map[job.Kind]Work
	// AtOnce bounds the jobs that run at a time; further ones are given back. Default 1.
	AtOnce int
	// ProgressInterval is how often the owner is told that a job goes on. It gives up on a job after a minute of
	// silence. Default 3 s.
	ProgressInterval time.Duration
	// RetryMin and RetryMax bound the pause before a part of an outcome is handed in again. Default 100 ms and 5 s.
	RetryMin, RetryMax time.Duration
	// AbortTimeout bounds the attempt to tell the owner that a job is given up; it finds out by itself otherwise.
	// Default 1 s.
	AbortTimeout time.Duration
	Log          *zap.Logger
	Registerer   prometheus.Registerer
}

// ApplyDefaults fills in what is zero.
func (c *Config) ApplyDefaults() {
	c.AtOnce = cmp.Or(c.AtOnce, 1)
	c.ProgressInterval = cmp.Or(c.ProgressInterval, 3*time.Second)
	c.RetryMin = cmp.Or(c.RetryMin, 100*time.Millisecond)
	c.RetryMax = cmp.Or(c.RetryMax, 5*time.Second)
	c.AbortTimeout = cmp.Or(c.AbortTimeout, time.Second)
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
}

// Validate gives all faults at once. Call it after ApplyDefaults.
func (c *Config) Validate() error {
	var errs []error
	if c.Owner == nil {
		errs = append(errs, errors.New("no owner to hand outcomes in to"))
	}
	if c.AtOnce < 1 {
		errs = append(errs, fmt.Errorf("%d jobs at once: at least 1", c.AtOnce))
	}
	if c.ProgressInterval < 0 || c.RetryMin < 0 || c.RetryMax < c.RetryMin || c.AbortTimeout < 0 {
		errs = append(errs, errors.New("intervals must be positive, the longest pause no shorter than the shortest"))
	}
	return errors.Join(errs...)
}
