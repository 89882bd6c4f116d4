package controlplane

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"unique"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
)

// hostedMetrics registers the metrics of one virtual cluster of etcd, of which there may be thousands. Counters and histograms of all of
// them count together, and so do collectors that are promreg.Summed. Gauges have the label virtual_cluster.
type hostedMetrics struct {
	own    *gauges
	shared prometheus.Registerer // of all virtual clusters of etcd
}

// of returns the place of a metric.
func (m hostedMetrics) of(c prometheus.Collector) prometheus.Registerer {
	switch c.(type) {
	case prometheus.Gauge: // has the methods of a Counter too
		return m.own
	case prometheus.Counter, prometheus.Histogram, *prometheus.CounterVec, *prometheus.HistogramVec, promreg.Summed:
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

// gauges are the metrics of one virtual cluster of etcd. A prometheus.Registry of its own would be a tenth of the memory of an idle virtual
// cluster.
type gauges struct {
	virtualCluster string
	mu             struct {
		sync.Mutex
		all []described
	}
}

type described struct {
	descs unique.Handle[string] // shared by all virtual clusters
	prometheus.Collector
}

// descsOf returns the descriptions of a metric.
func descsOf(c prometheus.Collector) unique.Handle[string] {
	descs := make(chan *prometheus.Desc)
	go func() {
		c.Describe(descs)
		close(descs)
	}()
	var all strings.Builder
	for d := range descs {
		all.WriteString(d.String())
	}
	return unique.Make(all.String())
}

// Register implements prometheus.Registerer. Gather returns the errors of metrics that contradict each other.
func (g *gauges) Register(c prometheus.Collector) error {
	descs := descsOf(c)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.mu.all {
		if r.descs == descs {
			return prometheus.AlreadyRegisteredError{ExistingCollector: r.Collector, NewCollector: c}
		}
	}
	g.mu.all = append(g.mu.all, described{descs, c})
	return nil
}

// MustRegister implements prometheus.Registerer.
func (g *gauges) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := g.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister implements prometheus.Registerer.
func (g *gauges) Unregister(c prometheus.Collector) bool {
	descs := descsOf(c)
	g.mu.Lock()
	defer g.mu.Unlock()
	before := len(g.mu.all)
	g.mu.all = slices.DeleteFunc(g.mu.all, func(r described) bool { return r.descs == descs })
	return len(g.mu.all) < before
}

// notShown are gauges that an idle virtual cluster has too. Tenants and operators read limits by the API. The others serve to compare replicas
// that follow a log, which few virtual clusters of etcd have.
var notShown = []string{"freshet_owner_limit", "freshet_replica_applied_index", "freshet_replica_state_version"}

// Gather implements prometheus.Gatherer. It omits gauges that are 0, as most gauges of an idle virtual cluster are, and those of notShown.
func (g *gauges) Gather() ([]*dto.MetricFamily, error) {
	own := prometheus.NewRegistry()
	labeled := prometheus.WrapRegistererWith(prometheus.Labels{"virtual_cluster": g.virtualCluster}, own)
	g.mu.Lock()
	all := slices.Clone(g.mu.all)
	g.mu.Unlock()
	var errs []error
	for _, r := range all {
		var m dto.Metric
		if gauge, ok := r.Collector.(prometheus.Gauge); ok && gauge.Write(&m) == nil && m.GetGauge().GetValue() == 0 {
			continue // registering is most of the work
		}
		errs = append(errs, labeled.Register(r.Collector))
	}
	families, err := own.Gather()
	for _, f := range families {
		f.Metric = slices.DeleteFunc(f.Metric, func(m *dto.Metric) bool { return m.GetGauge() != nil && m.GetGauge().GetValue() == 0 })
	}
	return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool {
		return len(f.Metric) == 0 || slices.Contains(notShown, f.GetName())
	}), errors.Join(append(errs, err)...)
}
