package edge

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/kafkaproto"
)

type metrics struct {
	accepted                    prometheus.Counter
	closed                      map[closeReason]prometheus.Counter
	requestBytes, responseBytes prometheus.Counter
	seconds                     [kafkaproto.MaxKey + 1]prometheus.Observer // nil for APIs not served
	errors                      *prometheus.CounterVec
	trailing                    *prometheus.CounterVec
	waiting                     *prometheus.GaugeVec
	waitSeconds                 *prometheus.CounterVec
	evicted                     *prometheus.CounterVec
}

// budgetMetrics are those of one memory budget.
type budgetMetrics struct {
	waiting              prometheus.Gauge
	waitSeconds, evicted prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, s *Server) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "freshet_kafka_" + name, Help: help})
		reg.MustRegister(c)
		return c
	}
	gauge := func(name, help string, labels prometheus.Labels, value func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "freshet_kafka_" + name, Help: help, ConstLabels: labels,
		}, value))
	}
	m := &metrics{
		accepted:      counter("connections_accepted_total", "Connections taken."),
		requestBytes:  counter("request_bytes_total", "Bytes of whole request frames."),
		responseBytes: counter("response_bytes_total", "Bytes of response frames."),
		closed:        make(map[closeReason]prometheus.Counter),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_kafka_errors_total",
			Help: "Errors in answers that the agent makes itself, one per partition or topic, by API and Kafka's name of the error.",
		}, []string{"api", "error"}),
		trailing: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_kafka_requests_with_trailing_bytes_total",
			Help: "Requests with bytes after their last field, which are ignored as Apache Kafka ignores them, by API.",
		}, []string{"api"}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "freshet_kafka_request_memory_waiting", Help: "Frames that wait for memory, by budget.",
		}, []string{"budget"}),
		waitSeconds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_kafka_request_memory_wait_seconds_total", Help: "Time frames waited for memory, by budget.",
		}, []string{"budget"}),
		evicted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_kafka_request_memory_evicted_total",
			Help: "Connections closed because their frame stopped arriving while others waited for memory, by budget.",
		}, []string{"budget"}),
	}
	closed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "freshet_kafka_connections_closed_total", Help: "Connections closed, by reason.",
	}, []string{"reason"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "freshet_kafka_request_seconds", Help: "Time from a request's last byte to its answer's last, by API.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"api"})
	reg.MustRegister(m.errors, m.trailing, m.waiting, m.waitSeconds, m.evicted, closed, seconds)
	for _, reason := range closeReasons {
		m.closed[reason] = closed.WithLabelValues(string(reason))
	}
	for _, e := range kafkaproto.Table() {
		if !e.Served.Empty() {
			m.seconds[e.Key] = seconds.WithLabelValues(e.Name)
		}
	}
	gauge("connections", "Open connections.", nil, func() float64 { return float64(s.Connections()) })
	gauge("unsent_bytes", "Response bytes that clients have not taken yet.", nil,
		func() float64 { return float64(s.UnsentBytes()) })
	gauge("request_memory_bytes", "Bytes held in request frames, by budget.", prometheus.Labels{"budget": "produce"},
		func() float64 { return s.produce.usedBytes() })
	gauge("request_memory_bytes", "Bytes held in request frames, by budget.", prometheus.Labels{"budget": "other"},
		func() float64 { return s.others.usedBytes() })
	return m
}

func (m *metrics) budget(name string) *budgetMetrics {
	return &budgetMetrics{
		waiting:     m.waiting.WithLabelValues(name),
		waitSeconds: m.waitSeconds.WithLabelValues(name),
		evicted:     m.evicted.WithLabelValues(name),
	}
}

// failed counts the errors of an answer.
func (m *metrics) failed(key int16, codes []int16) {
	for _, code := range codes {
		entry, ok := kafkaproto.Lookup(key)
		if !ok {
			return
		}
		name := "UNKNOWN_SERVER_ERROR"
		if err := kerr.TypedErrorForCode(code); err != nil {
			name = err.Message
		}
		m.errors.WithLabelValues(entry.Name, name).Inc()
	}
}

// trailed counts one request with bytes after its last field.
func (m *metrics) trailed(key int16) {
	if entry, ok := kafkaproto.Lookup(key); ok {
		m.trailing.WithLabelValues(entry.Name).Inc()
	}
}

// observe counts one answered request.
func (m *metrics) observe(key int16, d time.Duration) {
	if key >= 0 && key <= kafkaproto.MaxKey && m.seconds[key] != nil {
		m.seconds[key].Observe(d.Seconds())
	}
}
