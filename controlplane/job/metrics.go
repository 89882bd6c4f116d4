package job

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
	"github.com/freshet-io/freshet/metadata"
)

// Values of the how label.
const (
	abortedByRunner  = "given_up"
	abortedByTime    = "silent"
	abortedByStall   = "stalled"
	abortedBySession = "session_closed"
	abortedByConfigs = "configs_changed"
)

type metrics struct {
	open       *prometheus.GaugeVec
	oldest     prometheus.Gauge
	started    *prometheus.CounterVec
	done       *prometheus.CounterVec
	aborted    *prometheus.CounterVec
	in, out    *prometheus.CounterVec
	replaced   prometheus.Counter
	kept       prometheus.Counter
	unreadable prometheus.Gauge
	fresh      prometheus.Gauge
	freshBytes prometheus.Gauge
	firstBytes prometheus.Gauge
	deadBytes  prometheus.Gauge
	halfDead   prometheus.Gauge
	rounds     prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	of := []string{"kind", "level"}
	counter := func(name, help string) prometheus.Counter {
		return promreg.Register(r, prometheus.NewCounter(prometheus.CounterOpts{Name: "freshet_jobs_" + name, Help: help}))
	}
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		return promreg.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "freshet_jobs_" + name, Help: help}, labels))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return promreg.Gauge(r, "freshet_jobs_"+name, help)
	}
	return &metrics{
		open: promreg.Register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "freshet_jobs_open", Help: "Background jobs that are open, by kind and by the level of the bundles they write.",
		}, of)),
		oldest:     gauge("oldest_age_seconds", "Age of the oldest open job."),
		started:    vector("started_total", "Jobs handed out to agents.", of...),
		done:       vector("completed_total", "Jobs completed.", of...),
		aborted:    vector("aborted_total", "Jobs that came to nothing and are planned again.", "how"),
		in:         vector("input_bytes_total", "Bytes that completed jobs read.", of...),
		out:        vector("output_bytes_total", "Bytes of the objects that completed jobs wrote.", of...),
		replaced:   counter("runs_replaced_total", "Runs of extents that jobs replaced."),
		kept:       counter("runs_kept_total", "Runs that jobs rewrote in vain, because something else had changed them."),
		unreadable: gauge("unreadable_bundles", "Bundles whose objects jobs of two agents, or of the only one twice, found missing or corrupt. Compaction excludes these bundles for 6 hours."),
		fresh:      gauge("backlog_bundles", "Live bundles as agents wrote them: what the first level has before it."),
		freshBytes: gauge("backlog_bundle_bytes", "Live bytes in those bundles."),
		firstBytes: gauge("backlog_level1_bytes", "Bytes that the first level left and the second has before it."),
		deadBytes:  gauge("backlog_dead_bytes", "Bytes of live bundles' objects that belong to no live extent."),
		halfDead:   gauge("backlog_half_dead_bundles", "Live bundles to be rewritten because at most half of the object is live."),
		rounds: promreg.Register(r, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "freshet_jobs_round_seconds", Help: "Duration of a planning round.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		})),
	}
}

func labels(j *metadata.JobInfo) []string {
	return []string{j.Kind.String(), strconv.Itoa(int(j.Level))}
}

func (m *metrics) startedJob(j *metadata.JobInfo) { m.started.WithLabelValues(labels(j)...).Inc() }

func (m *metrics) completed(l *lease) {
	m.done.WithLabelValues(labels(&l.JobInfo)...).Inc()
	m.in.WithLabelValues(labels(&l.JobInfo)...).Add(float64(l.bytes))
	m.out.WithLabelValues(labels(&l.JobInfo)...).Add(float64(l.out))
}

// backlog is what a round found to be done.
type backlog struct {
	fresh      int
	freshBytes int64
	firstBytes int64
	deadBytes  int64
	halfDead   int
}

func (m *metrics) backlog(b backlog) {
	m.fresh.Set(float64(b.fresh))
	m.freshBytes.Set(float64(b.freshBytes))
	m.firstBytes.Set(float64(b.firstBytes))
	m.deadBytes.Set(float64(b.deadBytes))
	m.halfDead.Set(float64(b.halfDead))
}

// clear takes back what only an owner can know.
func (m *metrics) clear() {
	m.open.Reset()
	m.oldest.Set(0)
	m.backlog(backlog{})
	m.unreadable.Set(0)
}

// show sets what is known of the open jobs.
func (t *Tenure) show() {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.metrics.open.Reset()
	oldest := now
	for _, l := range t.mu.leases {
		t.metrics.open.WithLabelValues(labels(&l.JobInfo)...).Inc()
		if l.started().Before(oldest) {
			oldest = l.started()
		}
	}
	t.metrics.oldest.Set(now.Sub(oldest).Seconds())
}
