package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Results of pushes, and why points are dropped.
const (
	resultTaken     = "taken"
	resultThrottled = "throttled"
	resultRefused   = "refused"

	droppedPoints    = "points"     // more than maxPoints in a push
	droppedOfClient  = "client"     // more than maxClientSeries of a client
	droppedSeries    = "series"     // more than maxSeries in all
	droppedNoMetrics = "not_finite" // no number
)

type metrics struct {
	pushes  *prometheus.CounterVec
	dropped *prometheus.CounterVec
	evicted prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		pushes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_client_telemetry_pushes_total", Help: "Pushes of client metrics by result.",
		}, []string{"result"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_client_telemetry_dropped_points_total", Help: "Points of client metrics that were not kept, by the bound that was reached.",
		}, []string{"bound"}),
		evicted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_client_telemetry_evicted_clients_total", Help: "Clients forgotten before their time because there were too many.",
		}),
	}
	r.MustRegister(m.pushes, m.dropped, m.evicted)
	return m
}

// The metrics of clients themselves, and how many clients there are.
var (
	clientLabels = []string{"metric", "client_id", "client_instance_id", "attributes"}
	clientGauge  = prometheus.NewDesc("freshet_client_gauge", "Gauges that clients pushed (KIP-714).", clientLabels, nil)
	clientTotal  = prometheus.NewDesc("freshet_client_total", "Sums that clients pushed (KIP-714).", clientLabels, nil)
	clientCount  = prometheus.NewDesc("freshet_client_telemetry_clients", "Clients that asked what metrics to push, of late.", nil, nil)
)

// Describe implements prometheus.Collector.
func (t *Telemetry) Describe(out chan<- *prometheus.Desc) {
	out <- clientGauge
	out <- clientTotal
	out <- clientCount
}

// Collect implements prometheus.Collector.
func (t *Telemetry) Collect(out chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	out <- prometheus.MustNewConstMetric(clientCount, prometheus.GaugeValue, float64(len(t.mu.clients)))
	for _, c := range t.mu.clients {
		for key, value := range c.series {
			desc, kind := clientGauge, prometheus.GaugeValue
			if key.sum {
				desc, kind = clientTotal, prometheus.CounterValue
			}
			m, err := prometheus.NewConstMetric(desc, kind, value, key.metric, c.label, c.name, key.attributes)
			if err == nil {
				out <- m
			}
		}
	}
}
