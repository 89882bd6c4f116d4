package slab

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	held  prometheus.Gauge
	waits prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, budget int64) *metrics {
	reg = cmp.Or[prometheus.Registerer](reg, prometheus.NewRegistry())
	m := &metrics{
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "freshet_write_buffer_held_bytes", Help: "Capacity held for batches that are not committed yet.",
		}),
		waits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_write_buffer_waits_total", Help: "Times that intake waited because the write buffers were used up.",
		}),
	}
	limit := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "freshet_write_buffer_limit_bytes", Help: "Bound on the capacity held for batches that are not committed yet.",
	})
	limit.Set(float64(budget))
	reg.MustRegister(m.held, m.waits, limit)
	return m
}
