package peer

import "github.com/prometheus/client_golang/prometheus"

// Results of a request that came, as metrics show them; refusals also name the reason to the asker.
const (
	servedOK           = "ok"
	servedBroken       = "broken"
	servedBusy         = "busy"
	servedDraining     = "draining"
	servedMalformed    = "malformed"
	servedMisdirected  = "misdirected"
	servedUnauthorized = "unauthorized"
)

// Results of a request that was sent. All but the first two are reasons of fallbacks too.
const (
	askedOK          = "ok"
	askedAbsent      = "absent"      // not in the writer's memory any more
	askedBroken      = "broken"      // answer cut off, stalled, or no units
	askedBusy        = "busy"        // too many requests, here or there
	askedFailed      = "failed"      // it could not read the object either
	askedPending     = "pending"     // the writer is still handing the unit to its cache
	askedRefused     = "refused"     // draining, other secret, other cluster
	askedSilent      = "silent"      // no headers in time
	askedSlow        = "slow"        // no unit in time
	askedUnreachable = "unreachable" // no connection
	askedUnwanted    = "unwanted"    // read ahead for a reader who did not come; no reason of fallbacks
)

// Reasons of fallbacks that show when the unit is read.
const (
	unfitCorrupt    = "corrupt"
	unfitIncomplete = "incomplete"
)

type serverMetrics struct {
	requests *prometheus.CounterVec
	bytes    prometheus.Counter
	serving  prometheus.Gauge
	unsent   prometheus.Gauge
}

func newServerMetrics(r prometheus.Registerer) *serverMetrics {
	m := &serverMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_peer_served_total", Help: "Requests of other agents by result.",
		}, []string{"result"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_peer_sent_bytes_total", Help: "Bytes of bundles sent to other agents.",
		}),
		serving: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "freshet_peer_serving", Help: "Requests of other agents that are being answered.",
		}),
		unsent: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "freshet_peer_unsent_bytes", Help: "Bytes of units that are being sent to other agents.",
		}),
	}
	r.MustRegister(m.requests, m.bytes, m.serving, m.unsent)
	return m
}

type zoneMetrics struct {
	requests  *prometheus.CounterVec
	bytes     prometheus.Counter
	fallbacks *prometheus.CounterVec
	seconds   prometheus.Histogram
}

func newZoneMetrics(r prometheus.Registerer, leftOut func() float64) *zoneMetrics {
	m := &zoneMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_peer_requests_total", Help: "Requests to other agents by result.",
		}, []string{"result"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_peer_received_bytes_total", Help: "Bytes of bundles received from other agents.",
		}),
		fallbacks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_peer_fallbacks_total", Help: "Units read from the object store because another agent did not give them, by reason.",
		}, []string{"reason"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "freshet_peer_request_seconds", Help: "Duration of a request to another agent with its body.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}),
	}
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "freshet_peer_left_out", Help: "Agents of the zone that are not asked for a while, because they failed.",
	}, leftOut))
	r.MustRegister(m.requests, m.bytes, m.fallbacks, m.seconds)
	return m
}
