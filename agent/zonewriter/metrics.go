package zonewriter

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
)

// Writers that batches are handed to, as labels.
const (
	handedOwn   = "own"
	handedOther = "other"
)

type routeMetrics struct {
	bytes       *prometheus.CounterVec
	turns       *prometheus.CounterVec
	turnSeconds prometheus.Histogram
	failures    prometheus.Counter
}

func newRouteMetrics(reg prometheus.Registerer) *routeMetrics {
	reg = cmp.Or[prometheus.Registerer](reg, prometheus.NewRegistry())
	m := &routeMetrics{
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_zonewriter_handed_bytes_total", Help: "Bytes of batches of this agent's clients, by who writes them.",
		}, []string{"writer"}),
		turns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_zonewriter_turns_total", Help: "Changes of the writer, by who writes from then on.",
		}, []string{"writer"}),
		turnSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "freshet_zonewriter_turn_seconds", Help: "How long clients waited for a change of the writer.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_zonewriter_failures_total", Help: "Streams to the zone's writer that could not be opened, or were lost.",
		}),
	}
	for _, w := range []string{handedOwn, handedOther} {
		m.bytes.WithLabelValues(w)
		m.turns.WithLabelValues(w)
	}
	reg.MustRegister(m.bytes, m.turns, m.turnSeconds, m.failures)
	return m
}

type takerMetrics struct {
	streams prometheus.Gauge
	bytes   prometheus.Counter
	refused prometheus.Counter
}

func newTakerMetrics(reg prometheus.Registerer) *takerMetrics {
	reg = cmp.Or[prometheus.Registerer](reg, prometheus.NewRegistry())
	m := &takerMetrics{
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "freshet_zonewriter_streams", Help: "Agents that hand their batches over to this one.",
		}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_zonewriter_taken_bytes_total", Help: "Bytes of batches taken from other agents.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_zonewriter_refused_frames_total", Help: "Frames of other agents that came damaged, or were none; their streams were closed.",
		}),
	}
	reg.MustRegister(m.streams, m.bytes, m.refused)
	return m
}
