package kafka

import "github.com/prometheus/client_golang/prometheus"

type metrics struct{ lists prometheus.Gauge }

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{lists: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "freshet_metadata_encoded_bytes", Help: "Bytes of encoded lists of all topics, shared by the clients that ask for them.",
	})}
	r.MustRegister(m.lists)
	return m
}
