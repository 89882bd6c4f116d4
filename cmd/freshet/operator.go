package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/freshet-io/freshet/controlplane/lifecycle"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

// bindOperator adds the flags of commands that ask the control plane.
func bindOperator(f *pflag.FlagSet, p *program.Program, c *cli.OperatorConfig) {
	bindOperated(f, c)
	bindAsking(f, p, c)
}

// bindAsking adds the flags of bindOperator for the request and its output.
func bindAsking(f *pflag.FlagSet, p *program.Program, c *cli.OperatorConfig) {
	c.ApplyDefaults()
	program.BindFormat(f, p)
	bindDataDir(f, &c.DataDir)
	f.DurationVar(&c.Timeout, "timeout", c.Timeout, timeoutHelp)
	config.SetGroups(f, connection)
}

// bindOperated adds the flags of the control plane and of the virtual cluster.
func bindOperated(f *pflag.FlagSet, c *cli.OperatorConfig) {
	bindControlPlane(f, c)
	f.StringVar(&c.VirtualCluster, "virtual-cluster", c.VirtualCluster, "name of the virtual cluster to ask about")
}

func bindControlPlane(f *pflag.FlagSet, c *cli.OperatorConfig) {
	f.Var(config.List(&c.ControlPlane), "control-plane-http", "host:port or URL of the HTTP addresses (--http-listen) of control-plane replicas; any of them answers, and the next one is asked if one cannot be reached; if not given, the freshet dev on --data-dir is asked, without --virtual-cluster and --operator-key")
	f.StringVar(&c.Key, "operator-key", c.Key, "an operator key of the control plane, or a read-only key of the virtual cluster for lists of zones, writers and jobs; better given in the environment")
}

func newTopicUndelete(p program.Program) *cobra.Command {
	var c cli.OperatorConfig
	var as string
	cmd := &cobra.Command{
		Use: "undelete TOPIC", Short: "Take the deletion of a topic back", Args: program.Takes(1, 1, "the name or id of one deleted topic"),
		Long: "Take the deletion of a topic back, for 24 hours (--topic-undelete of the control plane): records, configs, offsets of\n" +
			"groups and the topic's id are as they were. freshet topic list --deleted shows what can be taken back.",
		Example: "  freshet topic undelete orders --data-dir ./data\n" +
			"  freshet topic undelete orders --as orders-old --control-plane-http cp-1:8090,cp-2:8090 --virtual-cluster main",
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.UndeleteTopic(cmd.Context(), c, args[0], as, p.Streams)
		},
	}
	bindOperator(cmd.Flags(), &p, &c)
	cmd.Flags().StringVar(&as, "as", "", "name of the restored topic, if its own was taken meanwhile")
	cmd.ValidArgsFunction = names(&p, 1, deletedOf(&c))
	return cmd
}

func newTopicPurge(p program.Program) *cobra.Command {
	var c cli.OperatorConfig
	var yes bool
	cmd := &cobra.Command{
		Use: "purge TOPIC", Short: "Give a deleted topic up before its time", Args: program.Takes(1, 1, "the name or id of one deleted topic"),
		Long: "Give a deleted topic up before its time: its deletion cannot be undone any more, and the object store's bytes are freed after the\n" +
			"grace for garbage (--garbage-grace of the control plane). freshet topic list --deleted shows deleted topics and their bytes.",
		Example: "  freshet topic purge orders --data-dir ./data\n" +
			"  freshet topic purge orders --yes --control-plane-http cp-1:8090,cp-2:8090 --virtual-cluster main",
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.PurgeTopic(cmd.Context(), c, args[0], yes, p.Streams)
		},
	}
	bindOperator(cmd.Flags(), &p, &c)
	cmd.Flags().BoolVarP(&yes, "yes", "y", yes, "do not ask for the topic's name")
	config.CommandLineOnly(cmd.Flags(), "yes")
	cmd.ValidArgsFunction = names(&p, 1, deletedOf(&c))
	return cmd
}

func bindLifecycle(f *pflag.FlagSet, s *lifecycle.Settings) {
	f.DurationVar(&s.RetentionCheck, "retention-check-interval", s.RetentionCheck, "how often retention.ms and retention.bytes are looked at")
	f.DurationVar(&s.GarbageGrace, "garbage-grace", s.GarbageGrace, "how long objects that nothing refers to any more are kept; at least 10m")
	f.Var(config.Choice((*string)(&s.OrphanSweep), string(lifecycle.SweepDelete), string(lifecycle.SweepOff)),
		"orphan-sweep", "treatment of objects that closed agent sessions put and nothing refers to")
	f.DurationVar(&s.OrphanAge, "orphan-age", s.OrphanAge, "time from the end of an agent session to its sweep for orphans, at least 10m: a PUT can come late")
	f.Var((*orNone)(&s.TopicUndelete), "topic-undelete", "how long the deletion of a topic can be taken back; 0: it is deleted at once")
}

// orNone is a duration whose 0 says "not at all"; settings have a negative one for that, since 0 takes their default.
type orNone time.Duration

func (d *orNone) String() string { return time.Duration(max(0, *d)).String() }

func (d *orNone) Type() string { return "duration" }

func (d *orNone) Set(s string) error {
	v, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return fmt.Errorf("want a duration such as 24h: %w", err)
	case v < 0:
		return fmt.Errorf("want a duration such as 24h, or 0")
	case v == 0:
		v = -1
	}
	*d = orNone(v)
	return nil
}
