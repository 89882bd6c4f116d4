package process

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

// ReadMetrics asks for what a process shows at a URL, in the text format of Prometheus.
func ReadMetrics(ctx context.Context, client *http.Client, url string) (Metrics, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask for metrics: %s answered %s", url, resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(resp.Body, maxMetrics))
	if err != nil {
		return nil, fmt.Errorf("read metrics of %s: %w", url, err)
	}
	return families, nil
}

// Sum adds up a counter, a gauge, or the sums of a histogram, over all label values. 0 if there is none of the name.
func (m Metrics) Sum(name string) (sum float64) {
	for _, metric := range m[name].GetMetric() {
		sum += value(metric)
	}
	return sum
}

// By is the same by the values of a label; nil if there is none of the name.
func (m Metrics) By(label, name string) map[string]float64 {
	if m[name] == nil {
		return nil
	}
	sums := make(map[string]float64)
	for _, metric := range m[name].GetMetric() {
		for _, l := range metric.GetLabel() {
			if l.GetName() == label {
				sums[l.GetValue()] += value(metric)
			}
		}
	}
	return sums
}

func value(m *dto.Metric) float64 {
	return m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue() + m.GetHistogram().GetSampleSum()
}
