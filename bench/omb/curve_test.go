package omb

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func curve(t *testing.T, list ...[]float64) *Curve {
	t.Helper()
	c, err := (&Workload{ProducerRateList: list}).Curve()
	require.NoError(t, err)
	return c
}

func TestCurve_MinutesSinceTheStart(t *testing.T) {
	start := time.Date(2026, 1, 1, 23, 50, 0, 0, time.UTC)
	c := curve(t, []float64{20, 4000}, []float64{5, 1000}, []float64{10, 2000}, []float64{20, 0})
	for minute, want := range map[float64]float64{0: 1000, 5: 1000, 7.5: 1500, 10: 2000, 15: 3000, 20: 0, 2000: 0} {
		require.InDelta(t, want, c.At(start, start.Add(minutes(minute))), 1e-6, "minute %v", minute)
	}
}

// AutoMQ's elastic day: the time of day counts, whenever the load began, and midnight is no gap.
func TestCurve_TimeOfDay(t *testing.T) {
	c := curve(t, []float64{4, 0, 10240}, []float64{4, 30, 204800}, []float64{5, 0, 10240}, []float64{22, 0, 1000}, []float64{2, 0, 5000})
	midnight := time.Date(2026, 3, 1, 0, 0, 0, 0, time.FixedZone("somewhere", 7200))
	for at, want := range map[time.Duration]float64{
		4 * time.Hour: 10240, 4*time.Hour + 15*time.Minute: 107520, 4*time.Hour + 30*time.Minute: 204800,
		22 * time.Hour: 1000, 24 * time.Hour: 3000, 0: 3000, 2 * time.Hour: 5000, 23 * time.Hour: 2000,
	} {
		require.InDelta(t, want, c.At(midnight.Add(-100*time.Hour), midnight.Add(at)), 1e-6, "at %v", at)
	}
}

func TestCurve_None(t *testing.T) {
	c, err := (&Workload{}).Curve()
	require.NoError(t, err)
	require.Nil(t, c)
}
