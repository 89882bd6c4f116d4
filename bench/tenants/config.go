package tenants

import (
	"cmp"
	"errors"
	"io"
	"os"
	"time"
)

// Config of a run.
type Config struct {
	Clusters int           // idle ones; default 990
	Loaded   int           // virtual clusters with an agent and a producer; default 10
	Rate     int           // records a second of each producer; default 20
	Duration time.Duration // of each measurement; default 30 s
	Settle   time.Duration // before each measurement; default 15 s
	Profiles string        // directory for profiles of the replicas with all idle clusters; "": none
	Bounds   bool          // a figure above its bound is an error
	Out      io.Writer     // default: standard output
}

// ApplyDefaults sets the defaults of zero fields.
func (c *Config) ApplyDefaults() {
	c.Clusters = cmp.Or(c.Clusters, 990)
	c.Loaded = cmp.Or(c.Loaded, 10)
	c.Rate = cmp.Or(c.Rate, 20)
	c.Duration = cmp.Or(c.Duration, 30*time.Second)
	c.Settle = cmp.Or(c.Settle, 15*time.Second)
	if c.Out == nil {
		c.Out = os.Stdout
	}
}

// Validate reports whether a run can begin.
func (c *Config) Validate() error {
	if c.Clusters < 1 || c.Loaded < 1 || c.Rate < 1 || c.Duration < time.Second || c.Settle < 0 {
		return errors.New("clusters, loaded and rate are positive, and a measurement takes a second or more")
	}
	return nil
}
