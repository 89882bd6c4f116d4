package errand

import "github.com/prometheus/client_golang/prometheus"

// Results of an errand, as metrics show them.
const (
	resultDone    = "done"
	resultFailed  = "failed"
	resultRefused = "refused"
)

type metrics struct {
	errands *prometheus.CounterVec
	deleted prometheus.Counter
	failed  prometheus.Counter
	aborted prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		errands: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_agent_errands_total", Help: "Errands of the control plane on the object store, by result. The agent refuses errands beyond 20 at a time, all without the jobs role except those that mark its bucket, and all before it has compared its bucket.",
		}, []string{"result"}),
		deleted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_agent_deleted_bundles_total", Help: "Bundles whose objects this agent deleted because the control plane named them.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_agent_undeleted_bundles_total", Help: "Bundles of errands whose objects are younger than 10 minutes, or that the object store refused to delete.",
		}),
		aborted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_agent_aborted_uploads_total", Help: "Unfinished uploads of ended agent sessions and jobs that this agent aborted because the control plane named the session.",
		}),
	}
	r.MustRegister(m.errands, m.deleted, m.failed, m.aborted)
	return m
}
