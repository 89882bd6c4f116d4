package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// maxMetrics bounds the answer of a metrics endpoint that is read, in bytes.
const maxMetrics = 32 << 20

// Metrics are what a process shows, by name.
type Metrics map[string]*dto.MetricFamily

// ReadMetrics asks the process whose metrics are at address, host:port.
func ReadMetrics(ctx context.Context, address string) (Metrics, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(resp.Body, maxMetrics))
	if err != nil {
		return nil, fmt.Errorf("read metrics of %s: %w", address, err)
	}
	return families, nil
}

// Sum adds up a counter, a gauge, or the sums of a histogram, over all label values. 0 if there is none of the name.
func (m Metrics) Sum(name string) (sum float64) {
	for _, metric := range m[name].GetMetric() {
		sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + metric.GetHistogram().GetSampleSum()
	}
	return sum
}
