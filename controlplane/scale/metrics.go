package scale

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
)

// metrics are exported by the owner alone: other replicas export none, so that no series goes stale.
type metrics struct{ agents, utilization, load, desired *prometheus.GaugeVec }

func newMetrics(reg prometheus.Registerer) *metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return promreg.Register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "freshet_zone_" + name, Help: help,
		}, []string{"zone"}))
	}
	return &metrics{
		agents:      gauge("agents", "Agents of the zone that clients are sent to."),
		utilization: gauge("utilization_ratio", "Mean of freshet_agent_utilization_ratio over the zone's agents."),
		load:        gauge("load", "Sum of freshet_agent_utilization_ratio over the zone's agents."),
		desired:     gauge("desired_replicas", "Agents that the zone should have: freshet_zone_load over --target-utilization, rounded up, at least 1."),
	}
}

func (m *metrics) all() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{m.agents, m.utilization, m.load, m.desired}
}

func (m *metrics) show(i *Info) {
	if i.Desired == nil {
		m.forget(i.Zone)
	} else {
		m.utilization.WithLabelValues(i.Zone).Set(i.Utilization)
		m.load.WithLabelValues(i.Zone).Set(i.Load)
		m.desired.WithLabelValues(i.Zone).Set(float64(*i.Desired))
	}
	m.agents.WithLabelValues(i.Zone).Set(float64(i.Agents))
}

func (m *metrics) forget(zone string) {
	for _, g := range m.all() {
		g.DeleteLabelValues(zone)
	}
}

func (m *metrics) clear() {
	for _, g := range m.all() {
		g.Reset()
	}
}
