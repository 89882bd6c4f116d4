package lifecycle

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
)

type metrics struct {
	trimmed   prometheus.Counter
	cleanup   prometheus.Gauge
	dead      prometheus.Gauge
	deadBytes prometheus.Gauge
	heldBack  prometheus.Gauge
	heldFor   prometheus.Gauge
	waits     prometheus.Gauge
	deleted   prometheus.Counter
	failures  prometheus.Counter

	orphans       prometheus.Counter
	orphanBytes   prometheus.Counter
	orphansOdd    prometheus.Counter
	uploads       prometheus.Counter
	unswept       prometheus.Gauge
	sweepWaits    prometheus.Gauge
	deletedTopics prometheus.Gauge
	deletedBytes  prometheus.Gauge
	purged        prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return promreg.Register(r, prometheus.NewCounter(prometheus.CounterOpts{Name: "freshet_lifecycle_" + name, Help: help}))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return promreg.Gauge(r, "freshet_lifecycle_"+name, help)
	}
	return &metrics{
		trimmed:   counter("retention_trims_total", "Log starts of partitions raised by retention."),
		cleanup:   gauge("cleanup_extents", "Extents of trimmed partitions and deleted topics that still count in their bundles."),
		dead:      gauge("dead_bundles", "Bundles that nothing refers to and whose objects are still there."),
		deadBytes: gauge("dead_bytes", "Bytes of those objects."),
		heldBack:  gauge("held_back_bundles", "Dead bundles whose objects could not be deleted and are tried again after a pause (see the log)."),
		heldFor:   gauge("held_back_seconds", "Seconds since the first failed deletion of the bundle that is held back for longest, 0 if there is none."),
		waits:     gauge("waiting_garbage_seconds", "Age of the oldest dead bundle that could be deleted if an agent with the jobs role were connected, 0 if none waits for one."),
		deleted:   counter("deleted_bundles_total", "Bundles deleted from the object store."),
		failures:  counter("failures_total", "Rounds of retention, garbage or sweeping that failed and are tried again."),

		orphans:       counter("orphans_deleted_total", "Objects deleted that an ended agent session or job had put and no commit made known."),
		orphanBytes:   counter("orphan_bytes_deleted_total", "Bytes of the orphans deleted."),
		orphansOdd:    counter("orphans_left_total", "Unknown objects under the prefix of an ended session that do not look like orphans of it, and are left where they are (see the log)."),
		uploads:       counter("uploads_aborted_total", "Unfinished uploads of ended agent sessions and jobs that were aborted."),
		unswept:       gauge("unswept_writers", "Ended agent sessions and jobs whose objects are still to be swept for orphans."),
		sweepWaits:    gauge("waiting_sweeps_seconds", "Seconds since a session or job could be swept for orphans if an agent with the jobs role were connected, 0 if none waits for one."),
		deletedTopics: gauge("deleted_topics", "Topics whose deletion can still be taken back."),
		deletedBytes:  gauge("deleted_topic_bytes", "Bytes of the records of topics whose deletion can still be taken back."),
		purged:        counter("purged_topics_total", "Deleted topics given up for good."),
	}
}

// forget resets the gauges of a tenure.
func (m *metrics) forget() {
	m.garbage(0, 0)
	m.held(0, 0)
	for _, g := range []prometheus.Gauge{m.cleanup, m.waits, m.unswept, m.sweepWaits, m.deletedTopics, m.deletedBytes} {
		g.Set(0)
	}
}

// garbage sets how much of it there is.
func (m *metrics) garbage(bundles int, bytes int64) {
	m.dead.Set(float64(bundles))
	m.deadBytes.Set(float64(bytes))
}

// held sets how many bundles are held back, and how long the oldest has been.
func (m *metrics) held(bundles int, oldest time.Duration) {
	m.heldBack.Set(float64(bundles))
	m.heldFor.Set(oldest.Seconds())
}
