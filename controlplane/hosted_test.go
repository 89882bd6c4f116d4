package controlplane

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
)

// TestHostedMetrics: counters and histograms of two virtual clusters count together, and gauges stay apart. A gauge at 0 is not shown, nor a limit.
func TestHostedMetrics(t *testing.T) {
	shared := prometheus.NewRegistry()
	all := prometheus.Gatherers{shared}
	for i, name := range []string{"one", "two"} {
		own := prometheus.NewRegistry()
		all = append(all, nonzero{own})
		r := hostedMetrics{own: prometheus.WrapRegistererWith(prometheus.Labels{"virtual_cluster": name}, own), shared: shared}
		promreg.Register(r, prometheus.NewCounter(prometheus.CounterOpts{Name: "c_total"})).Inc()
		promreg.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "v_total"}, []string{"l"})).WithLabelValues("x").Inc()
		promreg.Register(r, prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Buckets: []float64{1}})).Observe(1)
		promreg.Register(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: "g"})).Set(float64(i))
		promreg.Register(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: "freshet_owner_limit"})).Set(9)
		promreg.Register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "z"}, []string{"l"})).WithLabelValues("x").Set(float64(1 - i))
	}
	require.NoError(t, testutil.GatherAndCompare(all, strings.NewReader(`
# HELP c_total 
# TYPE c_total counter
c_total 2
# HELP g 
# TYPE g gauge
g{virtual_cluster="two"} 1
# HELP h 
# TYPE h histogram
h_bucket{le="1"} 2
h_bucket{le="+Inf"} 2
h_sum 2
h_count 2
# HELP v_total 
# TYPE v_total counter
v_total{l="x"} 2
# HELP z 
# TYPE z gauge
z{l="x",virtual_cluster="one"} 1
`)))
}
