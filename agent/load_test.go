package agent

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/objstoretest"
	"github.com/freshet-io/freshet/objstore/price"
)

// What goes to and comes from the object store is traffic, and costs what the configuration says.
func TestAgent_TrafficAndCostOfTheObjectStore(t *testing.T) {
	cfg := lonely(t)
	cfg.RequestPrices, cfg.Registry, cfg.Hedge = "put=2000,get=7000", prometheus.NewRegistry(), false
	a, err := New(t.Context(), cfg)
	require.NoError(t, err)
	defer a.Close()
	a.owned.gate.Open()
	require.NoError(t, a.bucket.Put(t.Context(), "k", objstore.NewBody(make([]byte, 1000))))
	_, err = objstoretest.Get(t.Context(), a.bucket, "k", 100, 300)
	require.NoError(t, err)
	in, out := a.traffic()
	require.EqualValues(t, 300, in)
	require.EqualValues(t, 1000, out)

	families, err := cfg.Registry.Gather()
	require.NoError(t, err)
	costs := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "freshet_objstore_request_cost_usd_total" {
			for _, m := range f.Metric {
				costs[m.Label[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	require.Equal(t, map[string]float64{"put": 2, "get": 7, "upload": 0, "retrieval": 0}, costs)
}

func TestConfig_RequestPricesAndNetworkLimit(t *testing.T) {
	cfg := lonely(t)
	cfg.ApplyDefaults()
	require.Equal(t, price.Auto, cfg.RequestPrices)
	cfg.RequestPrices, cfg.NetworkLimit = "put=free", -1
	err := cfg.Validate()
	require.ErrorIs(t, err, price.ErrInvalid)
	require.ErrorContains(t, err, "network limit")
}
