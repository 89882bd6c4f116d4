package main

import (
	"github.com/spf13/pflag"

	"github.com/freshet-io/freshet/agent"
	"github.com/freshet-io/freshet/controlplane/scale"
	"github.com/freshet-io/freshet/internal/config"
)

// bindLoad adds the flag for an agent's load signals.
func bindLoad(f *pflag.FlagSet, c *agent.Config) {
	f.Var(config.Size(&c.NetworkLimit), "network-limit", "bytes a second that the network carries in each direction, as 780MB for 6.25 Gbit/s, for load signals; "+
		"0: not known, the network counts for nothing")
}

// bindTarget adds the flag of how many agents zones should have.
func bindTarget(f *pflag.FlagSet, s *scale.Settings) {
	f.Float64Var(&s.Target, "target-utilization", s.Target, "load that agents should have on average: a zone's desired number of agents is the sum of their loads over this")
}
