package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/program"
)

func newJob(p program.Program) *cobra.Command {
	return program.Parent("job", "Show the background jobs that rewrite what is stored", newJobList(p))
}

func newJobList(p program.Program) *cobra.Command {
	var c cli.OperatorConfig
	cmd := &cobra.Command{
		Use: "list", Short: "List the jobs that are open or ended of late", Args: program.Takes(0, 0, "no arguments"),
		Example: "  freshet job list --data-dir ./data\n" +
			"  freshet job list --control-plane-http cp-1:8090,cp-2:8090 --virtual-cluster main",
		RunE: func(cmd *cobra.Command, _ []string) error { return cli.ListJobs(cmd.Context(), c, p.Streams) },
	}
	bindOperator(cmd.Flags(), &p, &c)
	return cmd
}

func bindJobs(f *pflag.FlagSet, s *job.Settings) {
	f.BoolVar(&s.Off, "no-jobs", s.Off, "start no background jobs: nothing is compacted or cleaned")
	f.DurationVar(&s.First.Age, "compact-after", s.First.Age, "age at which bundles of agents are compacted, even if they are few")
}
