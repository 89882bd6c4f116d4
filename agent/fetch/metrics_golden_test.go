package fetch

import (
	"testing"

	"github.com/freshet-io/freshet/internal/metrictest"
)

func TestMetrics_Golden(t *testing.T) {
	r := metrictest.NewRegistry()
	newMetrics(r, func() float64 { return 0 })
	newSessionMetrics(r)
	r.Golden(t)
}
