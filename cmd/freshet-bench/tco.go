package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/freshet-io/freshet/bench/tco"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

func newTCO(p program.Program) *cobra.Command {
	cfg := tco.Config{}
	cfg.ApplyDefaults()
	var asJSON, asCSV bool
	custom := tco.Workload{}
	custom.ApplyDefaults()
	workload := workloadFlags(&custom)
	cmd := &cobra.Command{
		Use:   "tco",
		Short: "Compute what a stream costs a month: published bills, and Freshet's",
		Long: `Recomputes the bills that WarpStream and AutoMQ have published from their unit prices, line by line, says where
a published figure does not come out and why, and puts Freshet's bill for the same workloads beside them. Any of
the flags that describe a workload prints Freshet's bill for that workload, and a lower bound of Apache Kafka's bill
on EBS. Each line shows its formula.

  freshet-bench tco
  freshet-bench tco --throughput 200MiB --compression-ratio 4 --retention 72h --fanout 3 --instance c7gn.large`,
		Args: program.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := chooseFormat(&cfg.Format, asJSON, asCSV); err != nil {
				return err
			}
			workload.VisitAll(func(f *pflag.Flag) {
				if cmd.Flags().Changed(f.Name) {
					cfg.Custom = &custom
				}
			})
			cfg.Out = p.Streams.Out
			return usageError(tco.Run(cfg), tco.ErrInvalid)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Prices, "prices", "", "YAML file of unit prices that replace those built in, in the form of bench/tco/catalog/prices.yaml")
	f.Var(config.List(&cfg.Tables), "tables", "tables to print, by id as in the JSON; all if not given")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&asCSV, "csv", false, "print CSV")
	f.AddFlagSet(workload)
	return cmd
}

// workloadFlags returns the flags of a workload and of the set-up of Freshet for it.
func workloadFlags(w *tco.Workload) *pflag.FlagSet {
	f := pflag.NewFlagSet("workload", pflag.ContinueOnError)
	f.Var(config.Size(&w.Throughput), "throughput", "bytes a second that producers write, before compression")
	f.Float64Var(&w.Fanout, "fanout", w.Fanout, "groups that read everything; -1 for none")
	f.IntVar(&w.Zones, "zones", w.Zones, "availability zones")
	f.DurationVar(&w.Retention, "retention", w.Retention, "how long records are kept")
	f.Float64Var(&w.CompressionRatio, "compression-ratio", w.CompressionRatio, "bytes before compression over bytes on the wire")
	f.Var(config.Size(&w.BatchBytes), "batch-bytes", "bytes of a batch on the wire")
	f.Var(config.Size(&w.BundleBytes), "bundle-bytes", "bytes of a full bundle")
	f.DurationVar(&w.FlushInterval, "flush-interval", w.FlushInterval, "longest wait of a batch for its bundle")
	f.Float64Var(&w.PutBudget, "put-budget", w.PutBudget, "PUTs a second and zone while bundles are not full")
	f.Float64Var(&w.HedgedPuts, "hedged-puts", w.HedgedPuts, "share of PUTs that are made twice")
	f.IntVar(&w.Rewrites, "rewrites", w.Rewrites, "times that compaction writes a byte again; -1 for none")
	f.Var(config.Size(&w.ObjectBytes), "object-bytes", "bytes of an object that compaction writes")
	f.Var(config.Size(&w.PartBytes), "part-bytes", "bytes of a part of its multipart uploads")
	f.Var(config.Choice(&w.Store, tco.S3Standard, tco.S3Express), "store", "object store")
	f.IntVar(&w.Copies, "express-copies", w.Copies, "zones in which S3 Express keeps a bundle")
	f.Var(config.Choice(&w.Sharing, tco.ShareZone, tco.ShareAgent), "sharing", "whether agents share writers and cache with their zone, or each is for itself")
	f.Var(config.Choice(&w.Endpoint, tco.EndpointGateway, tco.EndpointNAT), "endpoint", "way to the object store")
	f.Var(config.Choice(&w.KMS, tco.KMSNone, tco.KMSBucketKeys, tco.KMSObjects), "kms", "keys of objects: the store's own, KMS through bucket keys, or KMS for each request")
	f.StringVar(&w.Instance, "instance", w.Instance, "instance type of agents, of bench/tco/catalog/instances.yaml, or cheapest")
	f.StringVar(&w.Shape, "shape", w.Shape, "load whose CPU was measured: A large batches, B Java defaults, C large batches with TLS")
	f.Float64Var(&w.CPUHeadroom, "cpu-headroom", w.CPUHeadroom, "share of agents' CPU that stays free at the peak")
	f.Float64Var(&w.NetworkHeadroom, "network-headroom", w.NetworkHeadroom, "share of agents' network that stays free at the peak")
	f.IntVar(&w.MinAgents, "min-agents", w.MinAgents, "agents that every zone has at least")
	f.StringVar(&w.ControlInstance, "control-instance", w.ControlInstance, "instance type of control-plane replicas")
	f.IntVar(&w.ControlReplicas, "control-replicas", w.ControlReplicas, "control-plane replicas, each with a member of etcd")
	f.IntVar(&w.ControlDiskGiB, "control-disk", w.ControlDiskGiB, "GiB of disk of each replica")
	return f
}
