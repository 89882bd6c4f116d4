// Package promreg registers metrics that several instances in one process share, one per virtual cluster, say: they
// count together.
package promreg

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers c, or gives the collector of the same description that was registered before. It panics where
// two metrics of one name differ, a programming error.
func Register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	err := reg.Register(c)
	if err == nil {
		return c
	}
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing
		}
	}
	panic(err)
}

// Summed is a Collector with gauges that the virtual clusters of etcd count together, as they do counters.
type Summed interface {
	prometheus.Collector
	Summed()
}
