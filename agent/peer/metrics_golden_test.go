package peer

import (
	"testing"

	"github.com/freshet-io/freshet/internal/metrictest"
)

func TestMetrics_Golden(t *testing.T) {
	r := metrictest.NewRegistry()
	newServerMetrics(r)
	newConnections(ServerConfig{Registerer: r})
	newZoneMetrics(r, func() float64 { return 0 })
	r.Golden(t)
}
