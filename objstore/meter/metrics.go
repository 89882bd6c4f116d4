package meter

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/objstore"
)

// metrics of one metered bucket.
type metrics struct {
	requests [objstore.NumOps]prometheus.Counter
	bytes    [objstore.NumOps]prometheus.Counter
	seconds  [objstore.NumOps]prometheus.Observer
	inFlight [objstore.NumOps]prometheus.Gauge
	errors   *prometheus.CounterVec
}

// newMetrics registers the metrics.
func newMetrics(reg prometheus.Registerer) *metrics {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "freshet_objstore_requests_total",
		Help: "Requests to the object store, hedges and retries included.",
	}, []string{"operation"})
	bytes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "freshet_objstore_bytes_total",
		Help: "Object bytes sent by puts and parts that succeeded and received by gets.",
	}, []string{"operation"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "freshet_objstore_request_duration_seconds",
		Help:    "Time from a request's start to its answer; for gets to the first byte.",
		Buckets: []float64{.002, .005, .01, .02, .03, .05, .075, .1, .15, .2, .3, .5, .75, 1, 2, 5, 10, 30},
	}, []string{"operation"})
	inFlight := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "freshet_objstore_requests_in_flight",
		Help: "Requests to the object store under way.",
	}, []string{"operation"})
	m := &metrics{errors: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "freshet_objstore_errors_total",
		Help: "Requests that failed, by kind of error.",
	}, []string{"operation", "error"})}
	reg.MustRegister(requests, bytes, seconds, inFlight, m.errors)
	for op := range objstore.NumOps {
		m.requests[op] = requests.WithLabelValues(op.String())
		m.seconds[op] = seconds.WithLabelValues(op.String())
		m.inFlight[op] = inFlight.WithLabelValues(op.String())
	}
	for _, op := range []objstore.Op{objstore.OpPut, objstore.OpGet, objstore.OpPutPart} {
		m.bytes[op] = bytes.WithLabelValues(op.String())
	}
	return m
}
