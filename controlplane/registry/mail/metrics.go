package mail

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
)

// outcome is the end of an attempt to send a mail.
type outcome string

const (
	sent    outcome = "sent" // or not to be sent
	failed  outcome = "failed"
	dropped outcome = "dropped"
)

type metrics struct {
	attempts *prometheus.CounterVec
	queued   prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) metrics {
	r = cmp.Or[prometheus.Registerer](r, prometheus.NewRegistry())
	m := metrics{
		attempts: promreg.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_mail_attempts_total", Help: "Attempts to send a mail, by outcome: sent, failed and repeated later, dropped.",
		}, []string{"outcome"})),
		queued: promreg.Register(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: "freshet_mail_queued", Help: "Mails that are not sent yet."})),
	}
	for _, o := range []outcome{sent, failed, dropped} {
		m.attempts.WithLabelValues(string(o))
	}
	return m
}
