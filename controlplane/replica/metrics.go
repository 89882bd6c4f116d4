package replica

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
)

type metrics struct {
	takeovers       prometheus.Counter
	failedRounds    prometheus.Counter
	badSnapshots    prometheus.Counter
	snapshots       prometheus.Counter
	failedSnapshots prometheus.Counter
	unsnapshottable prometheus.Gauge
	snapshotSeconds prometheus.Histogram
	owning          prometheus.Gauge
	index           prometheus.Gauge
	version         prometheus.Gauge
	logBytes        prometheus.Gauge
	skew            prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return promreg.Register(reg, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return promreg.Gauge(reg, name, help)
	}
	return &metrics{
		takeovers:       counter("freshet_replica_takeovers_total", "Times that this replica became an owner."),
		failedRounds:    counter("freshet_replica_failed_rounds_total", "Looks at a log that failed."),
		badSnapshots:    counter("freshet_replica_unreadable_snapshots_total", "Snapshots that could not be read."),
		snapshots:       counter("freshet_replica_snapshots_total", "Snapshots taken."),
		failedSnapshots: counter("freshet_replica_failed_snapshots_total", "Snapshots that failed."),
		unsnapshottable: gauge("freshet_replica_unsnapshottable",
			"1 while no snapshot of the owned state can be read: its log is not trimmed, and commits are refused once it is full."),
		snapshotSeconds: promreg.Register(reg, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "freshet_replica_snapshot_seconds",
			Help:    "Time to take a snapshot, from its mark until it is pointed to.",
			Buckets: prometheus.ExponentialBuckets(0.01, 3, 10),
		})),
		owning: gauge("freshet_replica_owned_logs", "Logs that this replica owns."),
		index:  gauge("freshet_replica_applied_index", "Log index that this replica has applied."),
		version: gauge("freshet_replica_state_version",
			"Version of the state machine; it rises when every replica of the last 10 minutes can run the next."),
		logBytes: gauge("freshet_replica_untrimmed_log_bytes",
			"Metadata log that snapshots do not allow to be trimmed yet, what the log limits are about; 0 unless this replica is the owner."),
		skew: gauge("freshet_replica_clock_skew_seconds", "How many whole seconds this clock is ahead of the object store's."),
	}
}
