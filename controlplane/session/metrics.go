package session

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
)

// metrics of one virtual cluster's sessions.
type metrics struct {
	streams   prometheus.Gauge
	parked    prometheus.Gauge
	held      prometheus.Gauge
	cut       *prometheus.CounterVec
	notices   prometheus.Counter
	stamps    prometheus.Counter
	lookups   prometheus.Counter
	commits   *prometheus.CounterVec
	parkTimes *prometheus.CounterVec
	closed    prometheus.Counter
	hidden    prometheus.Counter
	messages  prometheus.Counter
	items     prometheus.Counter

	refusedLoads   prometheus.Counter
	refusedAnswers *prometheus.CounterVec
}

// Values of the reason label of cut streams.
const (
	cutSlow     = "slow"
	cutReplaced = "replaced"
	cutEnded    = "owner_ended"
	cutRevoked  = "key_withdrawn"
)

// Values of the bound label.
const (
	boundAnswer  = "one_answer"
	boundAnswers = "all_answers"
)

// Values of the result label.
const (
	resultSettled  = "settled"
	resultStored   = "stored"
	resultInvalid  = "invalid"
	resultTimeout  = "timed_out"
	resultOverfull = "overfull"
	resultLate     = "late"
)

func newMetrics(r prometheus.Registerer) *metrics {
	r = cmp.Or[prometheus.Registerer](r, prometheus.NewRegistry())
	counter := func(name, help string) prometheus.Counter {
		return promreg.Register(r, prometheus.NewCounter(prometheus.CounterOpts{Name: "freshet_session_" + name, Help: help}))
	}
	vector := func(name, help, label string) *prometheus.CounterVec {
		return promreg.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "freshet_session_" + name, Help: help}, []string{label}))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return promreg.Gauge(r, "freshet_session_"+name, help)
	}
	return &metrics{
		streams:   gauge("streams", "Agents connected to this replica as the owner."),
		parked:    gauge("parked_resubmissions", "Resubmitted commits that wait for a sequence gap to close."),
		held:      gauge("held_commits", "Commits that wait for earlier ones of their session."),
		cut:       vector("streams_cut_total", "Streams that the owner ended.", "reason"),
		notices:   counter("notices_total", "Notices sent to agents."),
		stamps:    counter("stamps_total", "Stamps sent to agents."),
		lookups:   counter("lookup_partitions_total", "Partitions looked up."),
		commits:   vector("commits_total", "Commits answered.", "result"),
		parkTimes: vector("parked_total", "Parked resubmissions answered.", "result"),
		closed:    counter("closed_total", "Sessions closed because their agent was silent."),
		hidden:    counter("hidden_total", "Agents taken out of Metadata because their stream broke and did not come back at once."),
		messages:  counter("sent_messages_total", "Messages sent to agents."),
		items:     counter("sent_items_total", "Items sent to agents, several to a message under load."),

		refusedLoads: counter("refused_loads_total", "Reports of agents about their load that were not taken: impossible figures, or too many agents."),
		refusedAnswers: vector("refused_answers_total",
			"Answers to clients' requests that were not built: one of more than 32 MiB, which closes the connection, or one beyond the memory for all answers, which the agent asks for again.", "bound"),
	}
}
