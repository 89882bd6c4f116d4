package etcdlog

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	compactions prometheus.Counter
	defrags     prometheus.Counter
	heals       prometheus.Counter
	failures    prometheus.Counter
	dbBytes     *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		compactions: counter("freshet_etcd_compactions_total", "Compactions of etcd's revision history."),
		defrags:     counter("freshet_etcd_defragmentations_total", "Defragmentations of etcd members."),
		heals:       counter("freshet_etcd_nospace_heals_total", "Times that etcd was found out of space and healed."),
		failures:    counter("freshet_etcd_upkeep_failures_total", "Rounds of etcd upkeep that failed."),
		dbBytes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "freshet_etcd_db_bytes", Help: "Size of an etcd member's backend file.",
		}, []string{"member"}),
	}
	reg.MustRegister(m.compactions, m.defrags, m.heals, m.failures, m.dbBytes)
	return m
}
