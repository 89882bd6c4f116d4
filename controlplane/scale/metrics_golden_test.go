package scale

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/metrictest"
)

func TestMetrics_Golden(t *testing.T) {
	r := metrictest.NewRegistry()
	require.NoError(t, r.Register(figures{new(Scaler)}))
	r.Golden(t)
}
