package errand

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
)

// Values of the result label.
const (
	resultDone      = "done"
	resultFailed    = "failed"
	resultSilent    = "silent"
	resultLeft      = "agent_left"
	resultCancelled = "cancelled"
)

type metrics struct {
	open     prometheus.Gauge
	waiting  prometheus.Gauge
	attempts *prometheus.CounterVec
	dropped  prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		open:    promreg.Gauge(r, "freshet_errands_open", "Errands at agents, at most 8."),
		waiting: promreg.Gauge(r, "freshet_errands_waiting", "Errands that wait because agents have 8."),
		attempts: promreg.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_errands_attempts_total", Help: "Errands given to agents, by result. An errand that fails is given to up to 3 agents.",
		}, []string{"result"})),
		dropped: promreg.Register(r, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_errands_dropped_answers_total", Help: "Answers of agents that were late, repeated or unasked for, or that do not fit their errand.",
		})),
	}
}

// count counts an attempt by its error.
func (m *metrics) count(err error) {
	result := resultFailed
	switch {
	case err == nil:
		result = resultDone
	case errors.Is(err, errSilent):
		result = resultSilent
	case errors.Is(err, errLeft):
		result = resultLeft
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		result = resultCancelled
	}
	m.attempts.WithLabelValues(result).Inc()
}
