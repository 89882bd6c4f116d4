package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// Owner is where jobs come from and outcomes go to (client.Session).
type Owner interface {
	JobProgress(n id.Session, bytes int64)
	CompleteJob(ctx context.Context, n id.Session, outcome []byte, last bool) error
	AbortJob(ctx context.Context, n id.Session, reason string, unreadable job.Unreadable) error
}

// Work carries out a plan. All objects that the outcome names are durable when Work returns. Work calls progress with the
// bytes of the inputs done so far, from any goroutine, until it returns.
type Work func(ctx context.Context, plan *job.Plan, progress func(bytes int64)) (job.Outcome, error)

// UnreadableInputs is implemented by errors of Work that are due to the content of input bundles. Work may wrap such an error.
type UnreadableInputs interface{ UnreadableInputs() job.Unreadable }

// Config of a Runner. Zero fields take the defaults named.
type Config struct {
	Owner Owner
	Work  map[job.Kind]Work
	// AtOnce bounds the jobs that run at a time; further ones are given back. Default 1.
	AtOnce     int
	Log        *zap.Logger
	Registerer prometheus.Registerer
}

// ApplyDefaults fills in what is zero.
func (c *Config) ApplyDefaults() {
	c.AtOnce = cmp.Or(c.AtOnce, 1)
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
	return errors.Join(errs...)
}
