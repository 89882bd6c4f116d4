package runner

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/metadata/job"
)

// Results of a job, as metrics show them.
const (
	resultDone      = "done"
	resultFailed    = "failed"
	resultCancelled = "cancelled"
)

type metrics struct {
	jobs    *prometheus.CounterVec
	read    *prometheus.CounterVec
	written *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	kind := []string{"kind"}
	m := &metrics{
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_runner_jobs_total", Help: "Background jobs that ended here, by kind and result.",
		}, []string{"kind", "result"}),
		read: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_runner_input_bytes_total", Help: "Bytes of inputs that finished jobs worked off.",
		}, kind),
		written: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_runner_output_bytes_total", Help: "Bytes of objects that finished jobs wrote.",
		}, kind),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "freshet_runner_job_seconds", Help: "Duration of a job, handing its outcome in included.",
			Buckets: prometheus.ExponentialBuckets(0.1, 2, 14),
		}, kind),
	}
	r.MustRegister(m.jobs, m.read, m.written, m.seconds)
	return m
}

// count adds up a finished job.
func (m *metrics) count(kind string, read *atomic.Int64, o *job.Outcome) {
	m.read.WithLabelValues(kind).Add(float64(read.Load()))
	for _, b := range o.Bundles {
		m.written.WithLabelValues(kind).Add(float64(b.Bytes))
	}
}
