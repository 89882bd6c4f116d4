package group

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
)

type metrics struct {
	loaded    prometheus.Counter
	failed    prometheus.Counter
	committed prometheus.Counter
	expired   prometheus.Counter
	refused   *prometheus.CounterVec
	groups    *groupsCollector
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return promreg.Register(reg, prometheus.NewCounter(prometheus.CounterOpts{Name: "freshet_group_" + name, Help: help}))
	}
	return &metrics{
		loaded:    counter("loads_total", "Groups with members loaded from the metadata state."),
		failed:    counter("write_failures_total", "Groups whose coordination began anew because a write failed."),
		committed: counter("committed_offsets_total", "Offsets committed, those of transactions included."),
		expired:   counter("expired_offsets_total", "Offsets deleted because their retention was over."),
		refused: promreg.Register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_group_refused_requests_total", Help: "Requests of group members refused at a bound, by Kafka's error.",
		}, []string{"error"})),
		groups: promreg.Register(reg, newGroupsCollector()),
	}
}

// Values of the kind label.
const (
	kindClassic  = "classic"
	kindConsumer = "consumer"
)

// groupsCollector counts the groups of all coordinators that share a registry. States are the five of each protocol.
type groupsCollector struct {
	desc         *prometheus.Desc
	coordinators sync.Map // keys are *Coordinator, each of a tenure
}

// Summed implements promreg.Summed.
func (*groupsCollector) Summed() {}

func newGroupsCollector() *groupsCollector {
	return &groupsCollector{desc: prometheus.NewDesc(
		"freshet_group_groups", "Groups loaded on the owner, those of offsets only excepted.", []string{"kind", "state"}, nil,
	)}
}

// observe counts a coordinator's groups until stop is called.
func (m *metrics) observe(c *Coordinator) (stop func()) {
	m.groups.coordinators.Store(c, nil)
	return func() { m.groups.coordinators.Delete(c) }
}

// Describe implements prometheus.Collector.
func (gc *groupsCollector) Describe(ch chan<- *prometheus.Desc) { ch <- gc.desc }

// Collect implements prometheus.Collector.
func (gc *groupsCollector) Collect(ch chan<- prometheus.Metric) {
	type key struct{ kind, state string }
	counts := map[key]int{}
	for c := range gc.coordinators.Range {
		for _, entry := range c.(*Coordinator).groups.Range {
			if kind, state := entry.(*group).kindAndState(); kind != "" {
				counts[key{kind, state}]++
			}
		}
	}
	for k, n := range counts {
		//nolint:promlinter // it cannot read a description that is a field
		ch <- prometheus.MustNewConstMetric(gc.desc, prometheus.GaugeValue, float64(n), k.kind, k.state)
	}
}

// kindAndState gives the labels that the group is counted under; empty for none.
func (g *group) kindAndState() (kind, state string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.consumer != nil:
		return kindConsumer, g.consumer.State()
	case g.classic != nil && g.classic.Stored() && (!g.simple || !g.classic.Empty()):
		return kindClassic, g.classic.State().String()
	default:
		return "", ""
	}
}
