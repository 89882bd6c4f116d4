package merge

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count what merging does.
type Metrics struct {
	read    prometheus.Counter
	written prometheus.Counter
	bundles prometheus.Counter
	resumed prometheus.Counter
	corrupt prometheus.Counter
}

// NewMetrics builds and registers the metrics; a nil registerer means a private registry.
func NewMetrics(r prometheus.Registerer) *Metrics {
	r = cmp.Or[prometheus.Registerer](r, prometheus.NewRegistry())
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &Metrics{
		read:    counter("freshet_merge_read_bytes_total", "Bytes of extents read to be merged."),
		written: counter("freshet_merge_written_bytes_total", "Bytes of batches written by merging."),
		bundles: counter("freshet_merge_bundles_total", "Bundles that merging completed."),
		resumed: counter("freshet_merge_streams_resumed_total", "Connections made again because they broke or stalled."),
		corrupt: counter("freshet_merge_corrupt_batches_total", "Batches that were not what they should be, after a second look."),
	}
	r.MustRegister(m.read, m.written, m.bundles, m.resumed, m.corrupt)
	return m
}
