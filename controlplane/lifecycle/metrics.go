package lifecycle

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
)

type metrics struct {
	trimmed   prometheus.Counter
	dead      prometheus.Gauge
	deadBytes prometheus.Gauge
	deleted   prometheus.Counter
	failures  prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return promreg.Register(r, prometheus.NewCounter(prometheus.CounterOpts{Name: "freshet_lifecycle_" + name, Help: help}))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return promreg.Register(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: "freshet_lifecycle_" + name, Help: help}))
	}
	return &metrics{
		trimmed:   counter("retention_trims_total", "Log starts of partitions raised by retention."),
		dead:      gauge("dead_bundles", "Bundles that nothing refers to and whose objects are still there."),
		deadBytes: gauge("dead_bytes", "Bytes of those objects."),
		deleted:   counter("deleted_bundles_total", "Bundles deleted from the object store."),
		failures:  counter("failures_total", "Rounds of retention or garbage that failed and are tried again."),
	}
}

// garbage sets how much of it there is.
func (m *metrics) garbage(bundles int, bytes int64) {
	m.dead.Set(float64(bundles))
	m.deadBytes.Set(float64(bytes))
}
