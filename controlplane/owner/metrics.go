package owner

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
)

type metrics struct {
	groupSeconds  prometheus.Histogram
	groupBytes    prometheus.Histogram
	groupCommands prometheus.Histogram
	refused       prometheus.Counter
	delayed       prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	return &metrics{
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
	}
}
