package fetch

import (
	"testing"

	"github.com/freshet-io/freshet/internal/metrictest"
)

func TestMetrics_Golden(t *testing.T) {
	r := metrictest.NewRegistry()
	none := func() float64 { return 0 }
	newMetrics(r, none, none, none)
	newSessionMetrics(r)
	newParked(1, nil).register(r)
	r.Golden(t)
}
