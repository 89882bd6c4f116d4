package main

import (
	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/program"
)

func newBucket(p program.Program) *cobra.Command {
	return program.Parent("bucket", "Show and move the bucket of a virtual cluster", newBucketShow(p), newBucketMove(p))
}

func newBucketShow(p program.Program) *cobra.Command {
	var c cli.BucketConfig
	cmd := &cobra.Command{
		Use: "show", Short: "Show which cluster the objects in a bucket belong to", Args: program.Takes(0, 0, "no arguments"),
		Example: "  freshet bucket show --bucket 's3://name/prefix?region=eu-central-1' --virtual-cluster main",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cli.ShowBucket(cmd.Context(), c, p.Streams) },
	}
	cmd.Flags().StringVar(&c.URL, "bucket", c.URL, bucketHelp)
	cmd.Flags().StringVar(&c.VirtualCluster, "virtual-cluster", c.VirtualCluster, "name of the virtual cluster")
	program.BindFormat(cmd.Flags(), &p)
	return cmd
}

func newBucketMove(p program.Program) *cobra.Command {
	var c cli.BucketConfig
	cmd := &cobra.Command{
		Use: "move", Short: "Make another bucket the one of a virtual cluster", Args: program.Takes(0, 0, "no arguments"),
		Long: "Make another bucket, or another prefix, the one of a virtual cluster. Stop its control plane and agents, copy all objects under\n" +
			"the name of the virtual cluster, and then run this: it checks that all of them are there, marks the new bucket with the cluster id,\n" +
			"and notes in the old one where they went, so that no process starts on it any more. It can be repeated after any failure.",
		Example: "  freshet bucket move --from 's3://old?region=eu-central-1' --to 's3://new?region=eu-central-1' --virtual-cluster main",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cli.MoveBucket(cmd.Context(), c, p.Streams) },
	}
	cmd.Flags().StringVar(&c.URL, "from", c.URL, "the bucket that the virtual cluster was on, as --bucket of an agent")
	cmd.Flags().StringVar(&c.To, "to", c.To, "the bucket that its objects were copied to")
	cmd.Flags().StringVar(&c.VirtualCluster, "virtual-cluster", c.VirtualCluster, "name of the virtual cluster")
	program.BindFormat(cmd.Flags(), &p)
	return cmd
}
