package mail

import (
	"testing"

	"github.com/freshet-io/freshet/internal/metrictest"
)

func TestMetrics_Golden(t *testing.T) {
	r := metrictest.NewRegistry()
	newMetrics(r)
	r.Golden(t)
}
