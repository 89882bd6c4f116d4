package cache

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	bytes     *prometheus.GaugeVec
	hits      [classes]prometheus.Counter
	misses    [classes]prometheus.Counter
	gets      *prometheus.CounterVec
	seeks     *prometheus.CounterVec
	readBytes *prometheus.CounterVec
	evicted   *prometheus.CounterVec
	handed    prometheus.Counter
	corrupt   prometheus.Counter
	latency   prometheus.Histogram
}

func newMetrics(r prometheus.Registerer, pinned func() float64) *metrics {
	class := []string{"class"}
	hits := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "freshet_cache_hits_total", Help: "Extents, or parts of them, read from memory.",
	}, class)
	misses := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "freshet_cache_misses_total", Help: "Extents, or parts of them, whose bytes had to be read from elsewhere.",
	}, class)
	m := &metrics{
		bytes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "freshet_cache_bytes", Help: "Bytes of bundles kept.",
		}, class),
		gets: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_cache_gets_total", Help: "GET attempts by class and result.",
		}, []string{"class", "result"}),
		seeks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_cache_seek_table_reads_total", Help: "Seek tables of bundles read from the object store, by result.",
		}, []string{"result"}),
		readBytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_cache_get_bytes_total", Help: "Bytes read from the object store.",
		}, class),
		evicted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_cache_evicted_bytes_total", Help: "Bytes dropped because the bound was reached.",
		}, class),
		handed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_cache_handed_over_bytes_total", Help: "Bytes of own bundles taken from the writer.",
		}),
		corrupt: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_cache_corrupt_extents_total", Help: "Extents whose stored bytes failed verification.",
		}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "freshet_cache_get_seconds", Help: "Duration of a GET with its body, retries included.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}),
	}
	for c := range Class(classes) { // looked up once: they count at every read
		m.hits[c], m.misses[c] = hits.WithLabelValues(c.String()), misses.WithLabelValues(c.String())
	}
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "freshet_cache_pinned_bytes", Help: "Bytes of bundles that were dropped while answers were being sent from them.",
	}, pinned))
	r.MustRegister(m.bytes, hits, misses, m.gets, m.seeks, m.readBytes, m.evicted, m.handed, m.corrupt, m.latency)
	return m
}
