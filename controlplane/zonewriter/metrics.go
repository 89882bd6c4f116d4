package zonewriter

import (
	"cmp"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
)

// Values of the reason label.
const (
	reasonMembers = "members" // agents came or went
	reasonReports = "reports" // one began or ceased to take batches, or fell silent
	reasonRates   = "rates"
)

// maxShown bounds the zones that metrics tell apart, those first by name: agents say what their zones are called.
const maxShown = 64

type metrics struct {
	writers *prometheus.GaugeVec
	savings *prometheus.GaugeVec
	changes *prometheus.CounterVec
	moved   prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	r = cmp.Or[prometheus.Registerer](r, prometheus.NewRegistry())
	m := &metrics{
		writers: promreg.Register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "freshet_zone_writers", Help: "Agents that write bundles, by zone; the others hand their batches to one of them.",
		}, []string{"zone"})),
		savings: promreg.Register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "freshet_zone_put_savings", Help: "Unused PUTs of the budget that the zone can still make, at most 59 minutes of the budget, by zone.",
		}, []string{"zone"})),
		changes: promreg.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_zone_writer_plan_changes_total", Help: "Changes of a zone's plan of writers.",
		}, []string{"reason"})),
		moved: promreg.Register(r, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_zone_writer_plan_moves_total", Help: "Agents that such a change gave another writer.",
		})),
	}
	for _, reason := range []string{reasonMembers, reasonReports, reasonRates} {
		m.changes.WithLabelValues(reason)
	}
	return m
}

func (m *metrics) changed(reason string, moved int) {
	m.changes.WithLabelValues(reason).Inc()
	m.moved.Add(float64(moved))
}

// show sets the gauges of each zone.
func (m *metrics) show(plans map[string]Plan, saved savings) {
	m.clear()
	names := slices.Sorted(maps.Keys(plans))
	for _, name := range names[:min(len(names), maxShown)] {
		m.writers.WithLabelValues(name).Set(float64(plans[name].Writers()))
		m.savings.WithLabelValues(name).Set(saved.of(name).Saved())
	}
}

// clear takes back what only an owner can know.
func (m *metrics) clear() {
	m.writers.Reset()
	m.savings.Reset()
}
