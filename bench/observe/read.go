package observe

import (
	"context"
	"errors"
	"net/http"

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

// read takes one sample of a target, without its time. The kernel's figures win over those a program tells of itself,
// because a program of another language may tell none or count differently.
func read(ctx context.Context, client *http.Client, t Target) (Sample, error) {
	var s Sample
	if t.Metrics != "" {
		m, err := process.ReadMetrics(ctx, client, t.Metrics)
		if err != nil {
			return s, err
		}
		s.CPU = m.Sum(metricCPU)
		s.ResidentBytes = int64(m.Sum(metricResident))
		s.Requests = m.By(labelOperation, metricRequests)
		s.ObjectBytes = m.By(labelOperation, metricBytes)
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
