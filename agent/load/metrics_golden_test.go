package load

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/metrictest"
)

func TestMetrics_Golden(t *testing.T) {
	r := metrictest.NewRegistry()
	_, err := New(Config{Registerer: r})
	require.NoError(t, err)
	r.Golden(t)
}
