package scale

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
)

// metrics are of the owner alone: other replicas export none, so that no series goes stale.
type metrics struct{ replicas, agents, utilization *prometheus.GaugeVec }

func newMetrics(reg prometheus.Registerer) *metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return promreg.Register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "freshet_zone_" + name, Help: help,
		}, []string{"zone"}))
	}
	return &metrics{
		replicas:    gauge("desired_replicas", "How many agents the zone should have for its load; at most a replica that is the owner has the figure."),
		agents:      gauge("agents", "Agents of the zone that clients are sent to."),
		utilization: gauge("utilization_ratio", "Average utilization of the zone's agents, those left out that joined in the last minute."),
	}
}

func (m *metrics) show(zone string, f Figure, known bool) {
	m.agents.WithLabelValues(zone).Set(float64(f.Agents))
	if known {
		m.replicas.WithLabelValues(zone).Set(float64(f.Replicas))
		m.utilization.WithLabelValues(zone).Set(f.Utilization)
	}
}

func (m *metrics) forget(zone string) {
	for _, g := range []*prometheus.GaugeVec{m.replicas, m.agents, m.utilization} {
		g.DeleteLabelValues(zone)
	}
}

// clear takes back what only an owner can know.
func (m *metrics) clear() {
	for _, g := range []*prometheus.GaugeVec{m.replicas, m.agents, m.utilization} {
		g.Reset()
	}
}
