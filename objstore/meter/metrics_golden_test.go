package meter

import (
	"testing"

	"github.com/freshet-io/freshet/internal/metrictest"
	"github.com/freshet-io/freshet/objstore/price"
)

func TestMetrics_Golden(t *testing.T) {
	r := metrictest.NewRegistry()
	newMetrics(r)
	newCosts(price.Table{}, r)
	r.Golden(t)
}
