package kafka

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	kept      prometheus.Gauge
	forgotten prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		kept: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "freshet_metadata_encoded_bytes", Help: "Bytes of encoded Metadata that are kept for the next who asks.",
		}),
		forgotten: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_metadata_encoded_forgotten_total", Help: "Times that all of it was forgotten because the bound was reached.",
		}),
	}
	r.MustRegister(m.kept, m.forgotten)
	return m
}
