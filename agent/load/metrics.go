package load

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/controlplane/api"
)

// Values of the resource label.
const (
	resourceCPU     = "cpu"
	resourceNetwork = "network"
	resourceBuffers = "buffers"
)

func registerMetrics(reg prometheus.Registerer, m *Meter) {
	for resource, share := range map[string]func(*api.Load) float64{
		resourceCPU: (*api.Load).GetCpu, resourceNetwork: (*api.Load).GetNetwork, resourceBuffers: (*api.Load).GetBuffers,
	} {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "freshet_agent_load_ratio",
			Help: "Share of what the agent may use that it used in the last 10 s: CPU, the network's busier direction (0 " +
				"without --network-limit), the fullest memory budget at which clients wait.",
			ConstLabels: prometheus.Labels{"resource": resource},
		}, func() float64 { return share(m.Load()) }))
	}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "freshet_agent_utilization_ratio",
		Help: "The largest of the shares in freshet_agent_load_ratio; autoscalers should aim at 0.6.",
	}, func() float64 { return m.Load().Utilization() }))
}
