// Package matrix runs all published workloads one after the other against one Kafka endpoint, at a scale, and writes one
// report. A workload that fails is reported and the next one runs; the whole fails at the end. Topics and groups of every
// workload are deleted after it.
package matrix

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/freshet-io/freshet/bench/javaconfig"
	"github.com/freshet-io/freshet/bench/observe"
	"github.com/freshet-io/freshet/bench/workloads"
)

// Config of a run.
type Config struct {
	Bootstrap   string // host:port, several separated by commas
	Common      string // Java properties text of all clients besides those of the workloads: security, for example
	Only        []string
	Scale       workloads.Scale
	Replication int16            // of topics, instead of that of the workloads; -1 the server's default, 0 the workloads'
	Targets     []observe.Target // programs whose cost is sampled during every test
	Dir         string           // of results, logs and the report; made if absent
	Out         io.Writer        // a few lines for each workload
	JSON        io.Writer        // of a summary at the end; nil for none
	Progress    io.Writer        // of a progress bar: a terminal; nil for none

	dpi int // of the pictures of the report; 0: the usual
}

// ApplyDefaults fills what is not set.
func (c *Config) ApplyDefaults() {
	if c.Bootstrap == "" {
		c.Bootstrap = "localhost:9092"
	}
	if c.Dir == "" {
		c.Dir = "matrix"
	}
	if c.Out == nil {
		c.Out = os.Stdout
	}
}

// Validate gives all faults at once.
func (c *Config) Validate() error {
	_, unknown := workloads.Select(c.Only)
	_, common := javaconfig.Parse(c.Common)
	faults := []error{unknown, common}
	if c.Scale.Factor < 0 || c.Scale.Factor > 1 {
		faults = append(faults, fmt.Errorf("scale is %v, want 0 (as published) to 1", c.Scale.Factor))
	}
	if c.Scale.Duration < 0 || c.Scale.Duration > 0 && c.Scale.Duration < leastDuration {
		faults = append(faults, fmt.Errorf("duration is %v, want 0 (as published) or at least %v", c.Scale.Duration, leastDuration))
	}
	if c.Replication < -1 {
		faults = append(faults, fmt.Errorf("replication factor is %d, want -1 (the server's default), 0 (the workloads') or more", c.Replication))
	}
	return errors.Join(faults...)
}

// leastDuration lets every test have a few periods.
const leastDuration = 4 * time.Second

// limit bounds a workload: what it should take, as much again for catching up, and time to prepare. Without a duration
// there is none.
func (c *Config) limit() time.Duration {
	if c.Scale.Duration == 0 {
		return 0
	}
	return 3*c.Scale.Duration + 3*time.Minute
}
