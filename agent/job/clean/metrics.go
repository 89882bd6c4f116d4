package clean

import "github.com/prometheus/client_golang/prometheus"

// Metrics count what cleaning does.
type Metrics struct {
	partitions  prometheus.Counter
	uncleanable prometheus.Counter
	kept        prometheus.Counter
	removed     *prometheus.CounterVec
	markers     prometheus.Counter
	read        prometheus.Counter
	written     prometheus.Counter
}

// Values of the removed records' reason label.
const (
	reasonSuperseded = "superseded"
	reasonTombstone  = "tombstone"
	reasonAborted    = "aborted"
	reasonKeyless    = "keyless"
)

// NewMetrics builds and registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &Metrics{
		partitions:  counter("freshet_clean_partitions_total", "Partitions of compacted topics cleaned."),
		uncleanable: counter("freshet_clean_uncleanable_total", "Jobs given up because of what is stored of a partition."),
		kept:        counter("freshet_clean_records_kept_total", "Records that cleaning kept."),
		markers:     counter("freshet_clean_markers_removed_total", "Markers of transactions removed with the last of their data."),
		read:        counter("freshet_clean_read_bytes_total", "Bytes read to clean partitions, twice where they were dirty."),
		written:     counter("freshet_clean_written_bytes_total", "Bytes of batches written by cleaning."),
		removed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_clean_records_removed_total", Help: "Records that cleaning removed, by reason.",
		}, []string{"reason"}),
	}
	r.MustRegister(m.partitions, m.uncleanable, m.kept, m.markers, m.read, m.written, m.removed)
	for _, reason := range []string{reasonSuperseded, reasonTombstone, reasonAborted, reasonKeyless} {
		m.removed.WithLabelValues(reason)
	}
	return m
}

// cleaned counts a partition.
func (m *Metrics) cleaned(c *counts, read, written int64) {
	m.partitions.Inc()
	m.kept.Add(float64(c.kept))
	m.markers.Add(float64(c.markers))
	m.read.Add(float64(read))
	m.written.Add(float64(written))
	m.removed.WithLabelValues(reasonSuperseded).Add(float64(c.superseded))
	m.removed.WithLabelValues(reasonTombstone).Add(float64(c.tombstones))
	m.removed.WithLabelValues(reasonAborted).Add(float64(c.aborted))
	m.removed.WithLabelValues(reasonKeyless).Add(float64(c.keyless))
}
