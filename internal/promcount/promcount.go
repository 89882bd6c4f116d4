// Package promcount reads what Prometheus counters have counted, for parts that measure themselves by them.
package promcount

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Value gives what a counter of whole things has counted. It allocates: it is for once a second, not for each event.
func Value(c prometheus.Counter) int64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		return 0 // counters of the library have no errors
	}
	return int64(m.GetCounter().GetValue())
}
