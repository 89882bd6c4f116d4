package promcount

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestValue(t *testing.T) {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "c"})
	require.Zero(t, Value(c))
	c.Add(1 << 40)
	c.Inc()
	require.EqualValues(t, 1<<40+1, Value(c))
}
