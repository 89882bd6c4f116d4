package merge

import (
	"testing"

	"github.com/freshet-io/freshet/internal/metrictest"
)

func TestMetrics_Golden(t *testing.T) {
	r := metrictest.NewRegistry()
	NewMetrics(r)
	r.Golden(t)
}
