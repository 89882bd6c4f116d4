package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/freshet-io/freshet/bench/process"
)

// Metrics that are read: those of every Prometheus client library for processes, and Freshet's of the object store
// (docs/metrics.md).
const (
	metricCPU      = "process_cpu_seconds_total"
	metricResident = "process_resident_memory_bytes"
	metricRequests = "freshet_objstore_requests_total"
	metricBytes    = "freshet_objstore_bytes_total"
	labelOperation = "operation"
)

// maxMetrics bounds the answer of a metrics endpoint that is read, in bytes.
const maxMetrics = 32 << 20

// read takes one sample of a target, without its time. The kernel's figures win over those a program tells of itself,
// because a program of another language may tell none or count differently.
func read(ctx context.Context, client *http.Client, t Target) (Sample, error) {
	var s Sample
	if t.Metrics != "" {
		if err := readMetrics(ctx, client, t.Metrics, &s); err != nil {
			return s, err
		}
	}
	if t.PID == 0 {
		return s, nil
	}
	p := process.Running(t.PID)
	var err1, err2, err3 error
	s.CPU, err1 = p.CPU()
	s.ResidentBytes, err2 = p.Memory()
	s.PeakBytes, err3 = p.PeakMemory()
	return s, errors.Join(err1, err2, err3)
}

func readMetrics(ctx context.Context, client *http.Client, url string, s *Sample) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("ask for metrics: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask for metrics: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ask for metrics: %s answered %s", url, resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(resp.Body, maxMetrics))
	if err != nil {
		return fmt.Errorf("read metrics of %s: %w", url, err)
	}
	s.CPU = total(families[metricCPU])
	s.ResidentBytes = int64(total(families[metricResident]))
	s.Requests = byOperation(families[metricRequests])
	s.ObjectBytes = byOperation(families[metricBytes])
	return nil
}

func value(m *dto.Metric) float64 {
	return m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
}

func total(family *dto.MetricFamily) (sum float64) {
	for _, m := range family.GetMetric() {
		sum += value(m)
	}
	return sum
}

func byOperation(family *dto.MetricFamily) map[string]float64 {
	if family == nil {
		return nil
	}
	out := map[string]float64{}
	for _, m := range family.GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetName() == labelOperation {
				out[label.GetValue()] += value(m)
			}
		}
	}
	return out
}
