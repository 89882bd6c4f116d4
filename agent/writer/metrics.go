package writer

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
)

// reason says why a bundle was sealed.
type reason int

const (
	sealSize reason = iota
	sealBatches
	sealLinger
	sealInterval
	sealDrain
	sealFast
	sealFlush
	sealSavings
)

var reasonNames = [...]string{"size", "batches", "linger", "interval", "drain", "fast", "flush", "savings"}

type metrics struct {
	seals         [len(reasonNames)]prometheus.Counter
	bundleBytes   prometheus.Histogram
	bundleBatches prometheus.Histogram
	putSeconds    prometheus.Histogram
	commitSeconds prometheus.Histogram
	batchSeconds  prometheus.Histogram
	stampSeconds  prometheus.Histogram
	putRetries    prometheus.Counter
	putting       prometheus.Gauge
	unsettled     prometheus.Gauge
	waits         *prometheus.CounterVec
	compacted     prometheus.Counter
	resubmissions prometheus.Counter
	gaps          prometheus.Counter
	abandoned     prometheus.Counter
	withdrawn     prometheus.Counter
	isolations    prometheus.Counter
	sessionLost   prometheus.Counter
}

// Bounds whose reaching is counted in freshet_writer_waits_total.
const (
	waitSession       = "session"
	waitPuts          = "puts"
	waitUnsettled     = "unsettled"
	waitResubmissions = "resubmissions"
	waitStamps        = "stamps"
)

func newMetrics(reg prometheus.Registerer) *metrics {
	reg = cmp.Or[prometheus.Registerer](reg, prometheus.NewRegistry())
	m := &metrics{
		bundleBytes: histogram("freshet_writer_bundle_bytes", "Size of bundles put.",
			prometheus.ExponentialBuckets(1<<10, 4, 8)),
		bundleBatches: histogram("freshet_writer_bundle_batches", "Batches per bundle.",
			prometheus.ExponentialBuckets(1, 4, 8)),
		putSeconds: histogram("freshet_writer_put_seconds", "From the start of a bundle's PUT to its known outcome.",
			latencyBuckets),
		commitSeconds: histogram("freshet_writer_commit_seconds", "From handing a commit in to its result.",
			latencyBuckets),
		batchSeconds: histogram("freshet_writer_produce_seconds",
			"From taking a produce request's batches in to the last one's result.", latencyBuckets),
		stampSeconds: histogram("freshet_writer_stamp_seconds",
			"From the end of a bundle's PUT to the stamps of its transactional batches of the first protocol.", latencyBuckets),
		putRetries: counter("freshet_writer_put_retries_total", "Attempts of PUTs that were followed by another."),
		putting:    gauge("freshet_writer_puts_in_flight", "Bundles being put."),
		unsettled:  gauge("freshet_writer_unsettled_bundles", "Bundles sealed, from the oldest that is not settled on."),
		compacted: counter("freshet_writer_compacted_bundles_total",
			"Bundles copied to memory of their own size, because they held much more than they used."),
		resubmissions: counter("freshet_writer_resubmissions_total", "Commits handed in again for a sequence gap."),
		gaps:          counter("freshet_writer_gaps_total", "Batches answered as retriable for a sequence gap."),
		abandoned:     counter("freshet_writer_abandoned_bundles_total", "Bundles given up because they could not be stored."),
		withdrawn: counter("freshet_writer_withdrawn_batches_total",
			"Batches of other agents left out of their commit because those had given them up."),
		isolations: counter("freshet_writer_refused_commits_total",
			"Commits that the control plane called malformed. The writer looks for the batch and sets the others aside."),
		sessionLost: counter("freshet_writer_sessions_closed_total", "Agent sessions that were closed, after which the writer begins anew."),
		waits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_writer_waits_total", Help: "Times that a bound of the writer was reached, by bound.",
		}, []string{"bound"}),
	}
	seals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "freshet_writer_seals_total", Help: "Bundles sealed, by reason.",
	}, []string{"reason"})
	for i, name := range reasonNames {
		m.seals[i] = seals.WithLabelValues(name)
	}
	for _, bound := range []string{waitSession, waitPuts, waitUnsettled, waitResubmissions, waitStamps} {
		m.waits.WithLabelValues(bound)
	}
	reg.MustRegister(seals, m.bundleBytes, m.bundleBatches, m.putSeconds, m.commitSeconds, m.batchSeconds, m.stampSeconds, m.putRetries,
		m.putting, m.unsettled, m.waits, m.compacted, m.resubmissions, m.gaps, m.abandoned, m.withdrawn, m.isolations,
		m.sessionLost)
	return m
}

// latencyBuckets reach from 1 ms to about a minute.
var latencyBuckets = prometheus.ExponentialBuckets(0.001, 2, 17)

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}
