package scale

import "github.com/prometheus/client_golang/prometheus"

var (
	zoneLabel       = []string{"zone"}
	agentsDesc      = prometheus.NewDesc("freshet_zone_agents", "Agents of the zone that clients are sent to.", zoneLabel, nil)
	utilizationDesc = prometheus.NewDesc("freshet_zone_utilization_ratio", "Mean of freshet_agent_utilization_ratio over the zone's agents.", zoneLabel, nil)
	loadDesc        = prometheus.NewDesc("freshet_zone_load", "Sum of freshet_agent_utilization_ratio over the zone's agents.", zoneLabel, nil)
	desiredDesc     = prometheus.NewDesc("freshet_zone_desired_replicas",
		"Agents that the zone should have: freshet_zone_load over --target-utilization, rounded up, at least 1.", zoneLabel, nil)
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
		zone := infos[i].Zone
		to <- prometheus.MustNewConstMetric(agentsDesc, prometheus.GaugeValue, float64(infos[i].Agents), zone)
		if infos[i].Desired != nil {
			to <- prometheus.MustNewConstMetric(utilizationDesc, prometheus.GaugeValue, infos[i].Utilization, zone)
			to <- prometheus.MustNewConstMetric(loadDesc, prometheus.GaugeValue, infos[i].Load, zone)
			to <- prometheus.MustNewConstMetric(desiredDesc, prometheus.GaugeValue, float64(*infos[i].Desired), zone)
		}
	}
}
