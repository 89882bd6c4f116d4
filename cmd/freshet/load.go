package main

import (
	"github.com/spf13/pflag"

	"github.com/freshet-io/freshet/agent"
	"github.com/freshet-io/freshet/controlplane/scale"
	"github.com/freshet-io/freshet/internal/config"
)

// bindLoad adds the flags of what an agent tells about its load and its costs.
func bindLoad(f *pflag.FlagSet, c *agent.Config) {
	f.Var(config.Size(&c.NetworkLimit), "network-limit", "bytes a second that the network carries in each direction, as 780MB for 6.25 Gbit/s, for load signals; "+
		"0: not known, the network counts for nothing")
	bindPrices(f, &c.RequestPrices)
}

// bindPrices adds the flag of what requests to the object store cost.
func bindPrices(f *pflag.FlagSet, spec *string) {
	f.StringVar(spec, "request-prices", *spec, "what the object store charges, for metrics of cost: auto (by --bucket), s3-standard, s3-express, none, or USD for 1000 requests "+
		"and for a GiB, as put=0.005,get=0.0004,upload=0,retrieval=0")
}

// bindTarget adds the flag of how many agents zones should have.
func bindTarget(f *pflag.FlagSet, s *scale.Settings) {
	f.Float64Var(&s.Target, "target-utilization", s.Target, "load that agents should have on average, for the number of agents that zones are said to need")
}
