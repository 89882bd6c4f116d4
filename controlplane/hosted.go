package controlplane

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// hostedMetrics registers the metrics of one virtual cluster of etcd, of which there may be thousands. Counters and histograms of all of
// them count together. Gauges have the label virtual_cluster.
type hostedMetrics struct {
	own    prometheus.Registerer // with the label
	shared prometheus.Registerer // of all virtual clusters of etcd
}

// of returns the place of a metric.
func (m hostedMetrics) of(c prometheus.Collector) prometheus.Registerer {
	switch c.(type) {
	case prometheus.Gauge: // has the methods of a Counter too
		return m.own
	case prometheus.Counter, prometheus.Histogram, *prometheus.CounterVec, *prometheus.HistogramVec:
		return m.shared
	}
	return m.own
}

// Register implements prometheus.Registerer.
func (m hostedMetrics) Register(c prometheus.Collector) error { return m.of(c).Register(c) }

// MustRegister implements prometheus.Registerer.
func (m hostedMetrics) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		m.of(c).MustRegister(c)
	}
}

// Unregister implements prometheus.Registerer.
func (m hostedMetrics) Unregister(c prometheus.Collector) bool { return m.of(c).Unregister(c) }

// nonzero gathers no gauge that is 0, as most gauges of an idle virtual cluster are, and none of notShown.
type nonzero struct{ prometheus.Gatherer }

// notShown are gauges that an idle virtual cluster has too. Tenants and operators read limits by the API. The others serve to compare replicas
// that follow a log, which few virtual clusters of etcd have.
var notShown = []string{"freshet_owner_limit", "freshet_replica_applied_index", "freshet_replica_state_version"}

// Gather implements prometheus.Gatherer.
func (g nonzero) Gather() ([]*dto.MetricFamily, error) {
	families, err := g.Gatherer.Gather()
	for _, f := range families {
		f.Metric = slices.DeleteFunc(f.Metric, func(m *dto.Metric) bool { return m.GetGauge() != nil && m.GetGauge().GetValue() == 0 })
	}
	return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool {
		return len(f.Metric) == 0 || slices.Contains(notShown, f.GetName())
	}), err
}
