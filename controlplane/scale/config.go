package scale

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Settings are what figures go by. Zero fields take the defaults.
type Settings struct {
	// Target is the load that agents should have on average. Default 0.6.
	Target float64
	// Tolerance is the relative deviation from the target that changes nothing. Default 0.1.
	Tolerance float64
	// Emergency is the load of an agent, or of a zone on average, that is an emergency once it has lasted for
	// EmergencyAfter. Defaults 0.9 and 3 s.
	Emergency      float64
	EmergencyAfter time.Duration
	// Up and Down are how long more, or fewer, agents must have been wanted before the figure says so. Defaults 15 s and
	// 5 min.
	Up, Down time.Duration
	// Warm is how long an agent takes to get its share of the zone's load. Younger ones count for the sum of loads, but
	// not for their average, nor as those on whose number an emergency builds. Default 1 min.
	Warm time.Duration
	// Forget is how long a zone without agents is remembered once its figure is 0. Default 5 min.
	Forget time.Duration
}

// ApplyDefaults fills the fields left zero.
func (s *Settings) ApplyDefaults() {
	s.Target = cmp.Or(s.Target, 0.6)
	s.Tolerance = cmp.Or(s.Tolerance, 0.1)
	s.Emergency = cmp.Or(s.Emergency, 0.9)
	s.EmergencyAfter = cmp.Or(s.EmergencyAfter, 3*time.Second)
	s.Up = cmp.Or(s.Up, 15*time.Second)
	s.Down = cmp.Or(s.Down, 5*time.Minute)
	s.Warm = cmp.Or(s.Warm, time.Minute)
	s.Forget = cmp.Or(s.Forget, 5*time.Minute)
}

// Bounds of Settings.
const (
	minTarget = 0.05
	maxWindow = time.Hour
)

// Validate gives all faults at once.
func (s *Settings) Validate() error {
	var errs []error
	if !(s.Target >= minTarget && s.Target < 1) {
		errs = append(errs, fmt.Errorf("target utilization %v: %v or more, below 1", s.Target, minTarget))
	}
	if !(s.Tolerance >= 0 && s.Tolerance < 1) {
		errs = append(errs, fmt.Errorf("tolerance %v: 0 or more, below 1", s.Tolerance))
	}
	if !(s.Emergency > s.Target) {
		errs = append(errs, fmt.Errorf("emergency from %v on: it must be above the target of %v", s.Emergency, s.Target))
	}
	for _, d := range []time.Duration{s.EmergencyAfter, s.Up, s.Down, s.Warm, s.Forget} {
		if d < 0 || d > maxWindow {
			errs = append(errs, fmt.Errorf("time of %v: 0 to %v", d, maxWindow))
		}
	}
	return errors.Join(errs...)
}

// Config of a Scaler.
type Config struct {
	Settings   Settings
	Log        *zap.Logger
	Registerer prometheus.Registerer // nil: a private registry
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
