package expiry

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
)

// step is a change of a sweep.
type step string

const (
	clusterDeleted step = "cluster_deleted"
	clusterRemoved step = "cluster_removed"
	accountRemoved step = "account_removed"
	teamRemoved    step = "team_removed" // whose deletion had ended early
)

type metrics struct {
	steps   *prometheus.CounterVec
	backlog *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) metrics {
	r = cmp.Or[prometheus.Registerer](r, prometheus.NewRegistry())
	m := metrics{
		steps: promreg.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freshet_expiry_steps_total", Help: "Steps of the expiry of virtual clusters and abandoned accounts, and of the purge of deleted virtual clusters, by step.",
		}, []string{"step"})),
		backlog: promreg.Register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "freshet_expiry_backlog", Help: "Virtual clusters, accounts, teams and requested purges that the last sweep could not read or complete, by kind.",
		}, []string{"kind"})),
	}
	for _, s := range []step{clusterDeleted, clusterRemoved, accountRemoved, teamRemoved} {
		m.steps.WithLabelValues(string(s))
	}
	return m
}
