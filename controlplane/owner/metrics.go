package owner

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
	"github.com/freshet-io/freshet/metadata"
)

type metrics struct {
	groupSeconds  prometheus.Histogram
	groupBytes    prometheus.Histogram
	groupCommands prometheus.Histogram
	refused       prometheus.Counter
	delayed       prometheus.Counter

	extents    prometheus.Gauge
	partitions prometheus.Gauge
	bytes      prometheus.Gauge
	bundles    prometheus.Gauge
	fresh      prometheus.Gauge
	share      prometheus.Gauge
	producers  prometheus.Gauge
	resting    prometheus.Gauge
	remembered prometheus.Gauge // bytes
	crowding   prometheus.Gauge
	slowed     prometheus.Counter
	overloaded prometheus.Counter
	limits     *limitMetrics

	topicsAndGroups prometheus.Gauge // share
}

func newMetrics(reg prometheus.Registerer) *metrics {
	return &metrics{
		limits: newLimitMetrics(reg),
		topicsAndGroups: gauge(reg, "topics_and_groups_share",
			"Memory of topics, configs, groups, offsets and transactions, as a share of their bound, half of the metadata's memory; at 1 new ones are refused, at 1.125 growth of existing ones."),
		groupSeconds: promreg.Register(reg, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "freshet_owner_group_seconds",
			Help:    "Time from taking a group of commands off the queue to answering it.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		})),
		groupBytes: promreg.Register(reg, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "freshet_owner_group_bytes",
			Help:    "Encoded size of a group of commands.",
			Buckets: prometheus.ExponentialBuckets(64, 4, 10),
		})),
		groupCommands: promreg.Register(reg, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "freshet_owner_group_commands",
			Help:    "Commands in a group.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 7),
		})),
		refused: promreg.Register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_owner_refused_commands_total",
			Help: "Commands refused because the log budget was used up.",
		})),
		delayed: promreg.Register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_owner_delayed_seconds_total",
			Help: "Time that groups were held back because the log was above its soft limit.",
		})),
		extents:    gauge(reg, "live_extents", "Extents of all partitions, on the owner."),
		bundles:    gauge(reg, "live_bundles", "Bundles that extents refer to, on the owner."),
		fresh:      gauge(reg, "fresh_bundles", "Live bundles that were not compacted yet, on the owner."),
		partitions: gauge(reg, "written_partitions", "Partitions that had a record, on the owner."),
		bytes:      gauge(reg, "metadata_bytes", "Estimated memory of the state, on the owner and on each replica; a snapshot needs as much once more."),
		share: gauge(reg, "metadata_share",
			"Largest share used of the extents, the bundles not compacted, or the memory that topics, configs, groups, offsets and transactions do not use; from 0.75 on commits are delayed, at 1 commits and new topics are refused."),
		producers: gauge(reg, "active_producers", "Idempotent producers that wrote within 24 hours, counted once per partition, on the owner."),
		resting: gauge(reg, "resting_producers",
			"Idempotent producers without a batch for 24 hours whose next sequence number is kept, counted once per partition, on the owner."),
		remembered: gauge(reg, "producer_bytes", "Estimated memory of active and resting producers, on the owner and on each replica."),
		crowding:   gauge(reg, "producer_share", "Share of the bound of active producers that is used; at 1 new ones are refused."),
		slowed: promreg.Register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_owner_slowed_seconds_total",
			Help: "Time that commits were delayed because metadata was near its bound.",
		})),
		overloaded: promreg.Register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_owner_overloaded_commits_total",
			Help: "Commits and other commands refused, retriably, because metadata was at its bound.",
		})),
	}
}

func gauge(reg prometheus.Registerer, name, help string) prometheus.Gauge {
	return promreg.Gauge(reg, "freshet_owner_"+name, help)
}

// forget sets the gauges of the owner's state to 0 after a tenure.
func (m *metrics) forget() {
	for _, g := range []prometheus.Gauge{m.extents, m.partitions, m.bytes, m.bundles, m.fresh, m.share, m.producers, m.resting, m.remembered, m.crowding, m.topicsAndGroups} {
		g.Set(0)
	}
	m.limits.set(metadata.Limits{}, metadata.Limits{})
}
