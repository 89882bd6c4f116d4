package agent

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/objstore"
)

// An agent that has no Welcome yet refuses errands.
func TestAgent_RefusesErrandsBeforeItsBucketIsCompared(t *testing.T) {
	cfg := lonely(t)
	registry := prometheus.NewRegistry()
	cfg.Registry, cfg.Gatherer = registry, registry
	a, err := New(t.Context(), cfg)
	require.NoError(t, err)
	defer a.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.listeners.errands.Run(ctx) }()
	a.listeners.OnErrand(&api.Errand{Id: 1, Errand: &api.Errand_ListSession{ListSession: &api.ListSession{Session: 1}}})
	byResult := map[string]float64{}
	require.Eventually(t, func() bool {
		families, err := registry.Gather()
		require.NoError(t, err)
		count := 0.0
		for _, f := range families {
			if f.GetName() != "freshet_agent_errands_total" {
				continue
			}
			for _, m := range f.Metric {
				byResult[m.Label[0].GetValue()] = m.GetCounter().GetValue()
				count += m.GetCounter().GetValue()
			}
		}
		return count > 0
	}, 10*time.Second, time.Millisecond)
	require.EqualValues(t, 1, byResult["refused"])
	cancel()
	require.NoError(t, <-ended)
}

func TestPartsWithin(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		bytes          int64
		size, inFlight int
	}{
		{0, objstore.MinPart, 1},
		{15*mib - 1, 15*mib/2 - 1, 1},
		{15 * mib, 5 * mib, 2},
		{20 * mib, 5 * mib, 3},
		{96 * mib, 24 * mib, 3},
		{256 * mib, 64 * mib, 3},
		{319 * mib, 64 * mib, 3},
		{1 << 40, 64 * mib, 4},
	} {
		size, inFlight := partsWithin(c.bytes)
		require.Equal(t, c.size, size, "%d bytes", c.bytes)
		require.Equal(t, c.inFlight, inFlight, "%d bytes", c.bytes)
	}
	budgets, err := divide(16 << 30)
	require.NoError(t, err)
	size, inFlight := partsWithin(budgets.jobs / 100 * mergePartsPercent)
	require.Equal(t, 64*mib, size)
	require.Equal(t, mostParts, inFlight)
	size, inFlight = partsWithin(budgets.jobs / 100 * cleanPartsPercent)
	require.Greater(t, inFlight, 1, "cleaning sends parts side by side too")
	require.LessOrEqual(t, int64(size*(inFlight+1)), budgets.jobs/100*cleanPartsPercent, "within its share")
}
