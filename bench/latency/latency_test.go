package latency

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRun_EveryRecordWaitsForItsPut(t *testing.T) {
	var out bytes.Buffer
	r, err := Run(t.Context(), Config{Records: 10, Interval: 260 * time.Millisecond, Model: "s3-express", Out: &out})
	require.NoError(t, err)
	require.Len(t, r.Produce, 10)
	for i := range r.Produce {
		require.GreaterOrEqual(t, r.Put[i], time.Millisecond, "the model's store is slow")
		require.Greater(t, r.Produce[i], r.Put[i], "no answer before the record is durable (I1)")
	}
	require.Regexp(t, `idle_p50_over_put_ms \d+\.\d\n$`, out.String())
	t.Log("\n" + out.String())
}

func TestPercentile(t *testing.T) {
	require.Zero(t, Percentile(nil, 0.5))
	var ds []time.Duration
	for i := range 101 {
		ds = append(ds, time.Duration(100-i))
	}
	require.EqualValues(t, 50, Percentile(ds, 0.5))
	require.EqualValues(t, 99, Percentile(ds, 0.99))
	require.EqualValues(t, 100, Percentile(ds, 1))
}
