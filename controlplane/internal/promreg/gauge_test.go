package promreg_test

import (
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
)

func TestGauge(t *testing.T) {
	reg, other := prometheus.NewPedanticRegistry(), prometheus.NewPedanticRegistry()
	g := promreg.Gauge(reg, "freshet_some", "Some.")
	require.Same(t, g, promreg.Gauge(reg, "freshet_some", "Some."))
	apart := promreg.Gauge(other, "freshet_some", "Some.")
	require.NotSame(t, g, apart)
	require.Same(t, g.Desc(), apart.Desc())

	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				g.Inc()
				g.Add(2)
				g.Sub(1)
				g.Dec()
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 8000, testutil.ToFloat64(g))
	require.Zero(t, testutil.ToFloat64(apart))
	g.Set(0.5)
	require.Equal(t, 1, testutil.CollectAndCount(g))
	families, err := reg.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	require.Equal(t, "freshet_some", families[0].GetName())
	require.Equal(t, "Some.", families[0].GetHelp())
	require.InDelta(t, 0.5, families[0].GetMetric()[0].GetGauge().GetValue(), 0)
	g.SetToCurrentTime()
	require.InDelta(t, time.Now().Unix(), testutil.ToFloat64(g), 60)
	require.Panics(t, func() { promreg.Gauge(reg, "freshet_some", "Another help.") })
}
