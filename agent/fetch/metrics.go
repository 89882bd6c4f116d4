package fetch

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	answers   *prometheus.CounterVec
	bytes     *prometheus.CounterVec
	errors    *prometheus.CounterVec
	gone      prometheus.Counter
	shrunk    prometheus.Counter
	unknown   prometheus.Counter
	sessions  prometheus.Gauge
	noSession prometheus.Counter
	evicted   prometheus.Counter
}

// Values of the answers' result label.
const (
	resultData  = "data"
	resultEmpty = "empty"
	resultError = "error"
)

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_fetch_answers_total", Help: "Fetches answered, by what they brought.",
		}, []string{"result"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_fetch_record_bytes_total", Help: "Record bytes answered, by class of read.",
		}, []string{"class"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_fetch_partition_errors_total", Help: "Partitions answered with an error, by Kafka error name.",
		}, []string{"error"}),
		gone: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_fetch_plans_dropped_total", Help: "Plans that named an object which is not there any more.",
		}),
		shrunk: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_fetch_shrunk_answers_total", Help: "Answers cut to the first batch because of unsent bytes.",
		}),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_fetch_unconfirmed_total", Help: "Fetches that could not be confirmed in time.",
		}),
	}
	r.MustRegister(m.answers, m.bytes, m.errors, m.gone, m.shrunk, m.unknown)
	return m
}

func newSessionMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		sessions: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "freshet_fetch_sessions", Help: "Fetch sessions open (KIP-227).",
		}),
		noSession: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_fetch_sessions_refused_total", Help: "Fetch sessions not opened because of their bounds.",
		}),
		evicted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_fetch_sessions_evicted_total", Help: "Idle fetch sessions closed to make room.",
		}),
	}
	r.MustRegister(m.sessions, m.noSession, m.evicted)
	return m
}
