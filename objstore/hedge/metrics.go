package hedge

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/objstore"
)

// Reasons for not hedging a slow request.
const (
	reasonShare     = "share"     // the share of requests that may be hedged is used up
	reasonThrottled = "throttled" // the store asked for fewer requests a moment ago
)

// metrics of one hedged bucket.
type metrics struct {
	hedges, wins *prometheus.CounterVec
	notHedged    *prometheus.CounterVec
}

// newMetrics registers the metrics; a nil registerer means a private registry.
func newMetrics(reg prometheus.Registerer) *metrics {
	reg = cmp.Or[prometheus.Registerer](reg, prometheus.NewRegistry())
	m := &metrics{
		hedges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_objstore_hedges_total",
			Help: "Requests to the object store that were sent a second time because they were slow.",
		}, []string{"operation"}),
		wins: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_objstore_hedge_wins_total",
			Help: "Hedged requests whose second attempt succeeded first.",
		}, []string{"operation"}),
		notHedged: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_objstore_hedges_suppressed_total",
			Help: "Slow requests that were not hedged, by reason.",
		}, []string{"operation", "reason"}),
	}
	reg.MustRegister(m.hedges, m.wins, m.notHedged)
	return m
}

func (m *metrics) hedged(op objstore.Op) { m.hedges.WithLabelValues(op.String()).Inc() }

func (m *metrics) suppressed(op objstore.Op, reason string) {
	m.notHedged.WithLabelValues(op.String(), reason).Inc()
}

func (m *metrics) won(op objstore.Op, attempt int) {
	if attempt != first {
		m.wins.WithLabelValues(op.String()).Inc()
	}
}
