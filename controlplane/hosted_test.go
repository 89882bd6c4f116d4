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
		own := &gauges{virtualCluster: name}
		all = append(all, own)
		r := hostedMetrics{own: own, shared: shared}
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

// TestGauges_Register: a gauge that is there is returned, as promreg needs it, and one that contradicts another is an error of Gather.
func TestGauges_Register(t *testing.T) {
	g := &gauges{virtualCluster: "one"}
	gauge := func(name, help string) prometheus.Gauge {
		return promreg.Register(g, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
	}
	first := gauge("a", "help")
	require.Same(t, first, gauge("a", "help"))
	first.Set(1)
	gauge("b", "help").Set(1)
	count, err := testutil.GatherAndCount(g)
	require.NoError(t, err)
	require.Equal(t, 2, count)
	require.True(t, g.Unregister(first))
	require.False(t, g.Unregister(first))
	gauge("b", "other help").Set(1)
	families, err := g.Gather()
	require.ErrorContains(t, err, "different label names or a different help string")
	require.Len(t, families, 1)
}
