package zonewriter

import (
	"testing"

	"github.com/freshet-io/freshet/internal/metrictest"
)

func TestMetrics_Golden(t *testing.T) {
	r := metrictest.NewRegistry()
	newRouteMetrics(r)
	newTakerMetrics(r)
	r.Golden(t)
}
