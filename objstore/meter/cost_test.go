package meter_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/meter"
	"github.com/freshet-io/freshet/objstore/objstoretest"
	"github.com/freshet-io/freshet/objstore/price"
)

const (
	totalCost = "freshet_objstore_request_cost_usd_total"
	hourly    = "freshet_objstore_request_cost_usd_per_hour"
)

// costs gives a metric by charge.
func costs(t *testing.T, reg *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.Metric {
				out[label(m)] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return out
}

func label(m *dto.Metric) string { return m.Label[0].GetValue() }

// Every operation once, against the table of what they cost.
func TestCosts_AreCountsTimesPrices(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	b := meter.NewPriced(mem.New(), price.Table{price.Put: 3, price.Get: 5, price.Upload: 7, price.Retrieval: 11}, reg)
	body := objstore.NewBody([]byte("0123456789"))
	require.NoError(t, b.Put(t.Context(), "k", body))
	require.Error(t, b.Put(t.Context(), "k", body), "a refused PUT is a PUT")
	_, err := objstoretest.Get(t.Context(), b, "k", 2, 3)
	require.NoError(t, err)
	_, err = b.Head(t.Context(), "k")
	require.NoError(t, err)
	_, err = b.Now(t.Context())
	require.NoError(t, err)
	_, err = b.List(t.Context(), "", "", 1)
	require.NoError(t, err)
	_, err = b.Uploads(t.Context(), "", "", 1)
	require.NoError(t, err)
	for _, end := range []func(objstore.Upload) error{
		func(u objstore.Upload) error { return u.Complete(t.Context()) },
		func(u objstore.Upload) error { return u.Abort(t.Context()) },
	} {
		u, err := b.Create(t.Context(), "parts")
		require.NoError(t, err)
		require.NoError(t, u.Part(t.Context(), 1, 0, body))
		require.NoError(t, end(u))
	}
	require.NoError(t, b.Delete(t.Context(), []string{"k"}))
	counts := b.Counts()
	puts := counts[objstore.OpPut].Requests + counts[objstore.OpList].Requests + counts[objstore.OpListUploads].Requests +
		counts[objstore.OpCreateUpload].Requests + counts[objstore.OpPutPart].Requests + counts[objstore.OpCompleteUpload].Requests
	require.EqualValues(t, 2+1+1+2+2+1, puts)
	require.Equal(t, map[string]float64{"put": 9 * 3, "get": 3 * 5, "upload": 30 * 7, "retrieval": 3 * 11}, costs(t, reg, totalCost))
}

// 4 PUTs and 10 GETs a second are 4 x 3600 x $0.000005 and 10 x 3600 x $0.0000004 an hour.
func TestCosts_PerHourIsThePaceOfTheLastMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		b := meter.NewPriced(mem.New(), price.Standard(), reg)
		second := func() {
			for range 4 {
				_, _ = b.List(t.Context(), "", "", 1)
			}
			for range 10 {
				_, _ = b.Head(t.Context(), "k")
			}
			time.Sleep(time.Second)
		}
		require.Zero(t, costs(t, reg, hourly)["put"])
		second()
		require.InDelta(t, 4.0/5*3600*0.000005, costs(t, reg, hourly)["put"], 1e-9, "one slot at least")
		require.InDelta(t, (4*0.000005+10*0.0000004)/5*3600, b.CostPerHour(), 1e-9, "all charges")
		for n := range 120 {
			second()
			if n%10 != 9 {
				continue
			}
			got := costs(t, reg, hourly)
			require.InEpsilon(t, 4*3600*0.000005, got["put"], 0.02, "after %d s", n)
			require.InEpsilon(t, 10*3600*0.0000004, got["get"], 0.02)
			require.Zero(t, got["upload"])
		}
		time.Sleep(30 * time.Second)
		require.InEpsilon(t, 4*3600*0.000005/2, costs(t, reg, hourly)["put"], 0.1, "half of the minute was silent")
		time.Sleep(40 * time.Second)
		require.Zero(t, costs(t, reg, hourly)["put"])
		require.InEpsilon(t, 121*4*0.000005, costs(t, reg, totalCost)["put"], 1e-9)
	})
}

func TestCosts_OfNewAreZero(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	b := meter.New(mem.New(), reg)
	require.NoError(t, b.Put(t.Context(), "k", objstore.NewBody([]byte("0123456789"))))
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP freshet_objstore_request_cost_usd_total What the object store charges for requests, and for their bytes where it does, by the prices of --request-prices.
# TYPE freshet_objstore_request_cost_usd_total counter
freshet_objstore_request_cost_usd_total{charge="get"} 0
freshet_objstore_request_cost_usd_total{charge="put"} 0
freshet_objstore_request_cost_usd_total{charge="retrieval"} 0
freshet_objstore_request_cost_usd_total{charge="upload"} 0
`), totalCost))
}
