package client

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one Session.
type metrics struct {
	connected  prometheus.Gauge
	reconnects prometheus.Counter
	closed     prometheus.Counter
	repeats    prometheus.Counter
	messages   prometheus.Counter
	items      prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	r = cmp.Or[prometheus.Registerer](r, prometheus.NewRegistry())
	m := &metrics{
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "freshet_agent_session_connected", Help: "1 while there is a stream with the owner.",
		}),
		reconnects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_agent_session_reconnects_total", Help: "Attempts to reach the owner that failed or streams that ended.",
		}),
		closed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_agent_sessions_closed_total", Help: "Agent sessions that the owner closed.",
		}),
		repeats: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_agent_session_repeats_total", Help: "Calls sent again because the owner could not answer them.",
		}),
		messages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_agent_session_sent_messages_total", Help: "Messages sent to the owner.",
		}),
		items: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_agent_session_sent_items_total", Help: "Items sent to the owner, several to a message under load.",
		}),
	}
	r.MustRegister(m.connected, m.reconnects, m.closed, m.repeats, m.messages, m.items)
	return m
}
