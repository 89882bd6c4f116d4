package kafka

import (
	"testing"

	"github.com/freshet-io/freshet/internal/metrictest"
)

func TestMetrics_Golden(t *testing.T) {
	r := metrictest.NewRegistry()
	newEncoded(r)
	newUnknownZones(new(Zones), nil, r)
	newWindows(nil, r).bytes.WithLabelValues("billing")
	r.Golden(t)
}
