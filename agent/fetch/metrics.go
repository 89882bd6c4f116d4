package fetch

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/agent/cache"
)

type metrics struct {
	answers   *prometheus.CounterVec
	bytes     [2]prometheus.Counter // by cache.Class
	gone      prometheus.Counter
	shrunk    prometheus.Counter
	unknown   prometheus.Counter
	noRoom    prometheus.Counter
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

func newMetrics(r prometheus.Registerer, held, places, lost func() float64) *metrics {
	bytes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "freshet_fetch_record_bytes_total", Help: "Record bytes answered, by class of read.",
	}, []string{"class"})
	m := &metrics{
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_fetch_answers_total", Help: "Fetches answered, by what they brought.",
		}, []string{"result"}),
		gone: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_fetch_plans_dropped_total", Help: "Plans that named an object which is not there any more.",
		}),
		shrunk: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_fetch_shrunk_answers_total", Help: "Answers cut to the first batch because of unsent bytes.",
		}),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_fetch_unconfirmed_total", Help: "Fetches that could not be confirmed in time.",
		}),
		noRoom: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_fetch_no_room_total", Help: "Fetches refused because clients did not take their answers and memory was full.",
		}),
	}
	for _, class := range []cache.Class{cache.Live, cache.CatchUp} { // looked up once: they count at every read
		m.bytes[class] = bytes.WithLabelValues(class.String())
	}
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "freshet_fetch_unsent_bytes", Help: "Record bytes of answers that are being read or not taken by clients yet.",
	}, held), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "freshet_fetch_places", Help: "Partitions of open connections whose next fetch behind the live edge has a known place in an object; at most 50000.",
	}, places), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "freshet_fetch_lost_extents",
		Help: "Extents whose object is missing from the object store although the metadata names it, by partition and bundle. Counted if read in the last 2 minutes.",
	}, lost))
	r.MustRegister(m.answers, bytes, m.gone, m.shrunk, m.unknown, m.noRoom)
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
			Name: "freshet_fetch_sessions_evicted_total", Help: "Fetch sessions evicted for new ones.",
		}),
	}
	r.MustRegister(m.sessions, m.noSession, m.evicted)
	return m
}
