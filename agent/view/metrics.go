package view

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	subscriptions prometheus.Gauge
	parked        prometheus.Gauge
	lookups       prometheus.Counter
	looked        prometheus.Counter
	notices       prometheus.Counter
	gaps          prometheus.Counter
	trimmed       prometheus.Counter
	refused       prometheus.Counter
	stale         prometheus.Counter
	probes        *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		subscriptions: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "freshet_view_subscribed_partitions", Help: "Partitions whose notices the agent receives.",
		}),
		parked: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "freshet_view_parked_fetches", Help: "Fetches that wait for commits.",
		}),
		lookups: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_view_lookups_total", Help: "Look-ups sent to the owner.",
		}),
		looked: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_view_lookup_partitions_total", Help: "Partitions asked about in look-ups.",
		}),
		notices: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_view_partition_notices_total", Help: "Partition notices received.",
		}),
		gaps: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_view_notice_gaps_total", Help: "Notices that did not fit the window; the window was dropped.",
		}),
		trimmed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_view_window_trimmed_extents_total", Help: "Extents dropped because a window was full.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_view_subscriptions_refused_total", Help: "Reads without subscription because the bound was reached.",
		}),
		stale: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_view_stale_plans_total",
			Help: "Reads planned from what was known before the session stream broke, because the owner could not be asked.",
		}),
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_view_probes_total", Help: "Shared freshness probes by result.",
		}, []string{"result"}),
	}
	r.MustRegister(m.subscriptions, m.parked, m.lookups, m.looked, m.notices, m.gaps, m.trimmed, m.refused, m.stale,
		m.probes)
	return m
}
