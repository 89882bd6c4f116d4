package scale

import "github.com/prometheus/client_golang/prometheus"

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("freshet_zone_"+name, help, []string{"zone"}, nil)
}

var (
	agentsDesc      = desc("agents", "Agents of the zone that clients are sent to.")
	utilizationDesc = desc("utilization_ratio", "Mean of freshet_agent_utilization_ratio over the zone's agents.")
	loadDesc        = desc("load", "Sum of freshet_agent_utilization_ratio over the zone's agents.")
	desiredDesc     = desc("desired_replicas", "Agents that the zone should have: freshet_zone_load over --target-utilization, rounded up, at least 1.")
)

// figures exports the figures of a Scaler. Only the owner exports any, so that no series goes stale.
type figures struct{ *Scaler }

// Describe implements prometheus.Collector.
func (figures) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{agentsDesc, utilizationDesc, loadDesc, desiredDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (f figures) Collect(to chan<- prometheus.Metric) {
	infos, err := f.List()
	if err != nil {
		return // not the owner
	}
	for i := range infos {
		show := func(d *prometheus.Desc, value float64) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, infos[i].Zone)
		}
		show(agentsDesc, float64(infos[i].Agents))
		if infos[i].Desired != nil {
			show(utilizationDesc, infos[i].Utilization)
			show(loadDesc, infos[i].Load)
			show(desiredDesc, float64(*infos[i].Desired))
		}
	}
}
