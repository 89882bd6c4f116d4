package main

import (
	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

func newBundle(p program.Program) *cobra.Command {
	return program.Parent("bundle", "Inspect bundles, and give up the records of lost ones", newBundleInspect(p), newBundleList(p), newBundleCut(p))
}

func newBundleCut(p program.Program) *cobra.Command {
	var c cli.OperatorConfig
	var yes bool
	cmd := &cobra.Command{
		Use: "cut BUNDLE", Short: "Give up the records of a bundle that cannot be read", Args: program.Takes(1, 1, "one bundle, as the log names it"),
		Long: "Give up the records of a bundle whose object is missing or corrupt. First try to restore the object, from a backup or from an\n" +
			"earlier version in the object store. An agent with the jobs role rewrites the bundle's records that can be read. The offsets of all\n" +
			"other records are empty then, as after the cleaning of a compacted topic, and consumers skip them.",
		Example: "  freshet bundle cut 12/345 --data-dir ./data\n" +
			"  freshet bundle cut 12/345 --yes --control-plane-http cp-1:8090,cp-2:8090 --virtual-cluster main",
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.CutBundle(cmd.Context(), c, args[0], yes, p.Streams)
		},
	}
	bindOperator(cmd.Flags(), &p, &c)
	cmd.Flags().BoolVarP(&yes, "yes", "y", yes, "do not ask for confirmation by the bundle's name")
	config.CommandLineOnly(cmd.Flags(), "yes")
	return cmd
}

func newBundleInspect(p program.Program) *cobra.Command {
	var c cli.BundleConfig
	cmd := &cobra.Command{
		Use:   "inspect NAME...",
		Short: "Check bundles and show their sections and batches",
		Long: "Check bundles and show their sections and batches.\n\n" +
			"Every checksum and length is checked, none of it against the metadata: a bundle describes itself.",
		Example: `  freshet bundle inspect data/objects/...
  freshet bundle inspect --bucket 's3://name/prefix?region=eu-central-1' KEY`,
		Args: program.Takes(1, -1, "one or more bundles"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Names = args
			return cli.InspectBundles(cmd.Context(), c, p.Streams)
		},
	}
	program.BindFormat(cmd.Flags(), &p)
	cmd.Flags().StringVar(&c.BucketURL, "bucket", c.BucketURL, "bucket that the names are keys in, as for an agent; without it names are files")
	return cmd
}

func newBundleList(p program.Program) *cobra.Command {
	var c cli.BundleConfig
	cmd := &cobra.Command{
		Use: "list", Short: "List the objects of a bucket with size and time", Args: program.Takes(0, 0, "no arguments"),
		Example: "  freshet bundle list --bucket file://$PWD/data/objects",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.BucketURL == "" {
				return &cli.UsageError{Message: "--bucket is needed"}
			}
			return cli.ListBundles(cmd.Context(), c, p.Streams)
		},
	}
	cmd.Flags().StringVar(&c.BucketURL, "bucket", c.BucketURL, bucketHelp)
	program.BindFormat(cmd.Flags(), &p)
	cmd.Flags().StringVar(&c.Prefix, "prefix", c.Prefix, "list only keys that begin with this")
	return cmd
}
