package main

import (
	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/internal/cli"
)

func newBundle(p process) *cobra.Command {
	return parent("bundle", "Look into objects with record batches", newBundleInspect(p), newBundleList(p))
}

func newBundleInspect(p process) *cobra.Command {
	var c cli.BundleConfig
	cmd := &cobra.Command{
		Use:   "inspect NAME...",
		Short: "Check bundles and show their sections and batches",
		Long: "Check bundles and show their sections and batches.\n\n" +
			"Every checksum and length is checked, none of it against the metadata: a bundle tells about itself.",
		Example: `  freshet bundle inspect data/objects/...
  freshet bundle inspect --bucket 's3://name/prefix?region=eu-central-1' KEY`,
		Args: takes(1, -1, "one or more bundles"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Names = args
			return cli.InspectBundles(cmd.Context(), c, p.streams)
		},
	}
	cmd.Flags().StringVar(&c.BucketURL, "bucket", c.BucketURL, "bucket that the names are keys in, as for an agent; without it names are files")
	return cmd
}

func newBundleList(p process) *cobra.Command {
	var c cli.BundleConfig
	cmd := &cobra.Command{
		Use: "list", Short: "List the objects of a bucket with size and time", Args: takes(0, 0, "no arguments"),
		Example: "  freshet bundle list --bucket file://$PWD/data/objects",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.BucketURL == "" {
				return &cli.UsageError{Message: "--bucket is needed"}
			}
			return cli.ListBundles(cmd.Context(), c, p.streams)
		},
	}
	cmd.Flags().StringVar(&c.BucketURL, "bucket", c.BucketURL, bucketHelp)
	cmd.Flags().StringVar(&c.Prefix, "prefix", c.Prefix, "list only keys that begin with this")
	return cmd
}
