package recode

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct{ waits prometheus.Counter }

func newMetrics(reg prometheus.Registerer) *metrics {
	reg = cmp.Or[prometheus.Registerer](reg, prometheus.NewRegistry())
	m := &metrics{waits: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "freshet_recode_memory_waits_total",
		Help: "Times that a produce request waited because the memory for batches that are compressed anew was used up.",
	})}
	reg.MustRegister(m.waits)
	return m
}
