package main

import (
	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/bench/model"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

func newModel(p program.Program) *cobra.Command {
	cfg := model.Config{}
	cfg.ApplyDefaults()
	var asJSON, asCSV bool
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Compute what one producer can move at most, and what an agent carries on a machine",
		Long: `Computes two bounds without running anything. What a producer can move is what it has in flight over the latency
of an answer (Little's law); the table has it for every kind of client at every kind of broker, with the setting
that binds and what would lift it to --rate: more producers, more node ids for each agent, or settings. What an
agent carries is the least of what its CPU, as measured, its network and its memory allow.

  freshet-bench model --clients java,java-tuned --brokers kafka,freshet --partitions 12 --rate 15MiB`,
		Args: program.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := chooseFormat(&cfg.Format, asJSON, asCSV); err != nil {
				return err
			}
			cfg.Out = p.Streams.Out
			return usageError(model.Run(cfg), model.ErrInvalid)
		},
	}
	f := cmd.Flags()
	f.Var(config.Choice(&cfg.Table, model.TableBoth, model.TableClients, model.TableCapacity), "table", "table to print")
	f.Var(config.List(&cfg.Clients), "clients", "kinds of clients, of bench/model/clients.yaml; all if not given")
	f.Var(config.List(&cfg.Brokers), "brokers", "kinds of brokers, of bench/model/brokers.yaml; all if not given")
	f.IntVar(&cfg.Load.Partitions, "partitions", cfg.Load.Partitions, "partitions that the producer writes to")
	f.IntVar(&cfg.Load.Agents, "agents", cfg.Load.Agents, "agents or brokers")
	f.IntVar(&cfg.Load.Ports, "ports", cfg.Load.Ports, "node ids of each; 0 for what the broker has by default")
	f.Var(config.Size(&cfg.Load.RecordBytes), "record-bytes", "size of a record, which matters where clients bound their buffer in records")
	f.Var(config.Size(&cfg.Load.Rate), "rate", "bytes a second that are wanted")
	f.Var(config.List(&cfg.Instances), "instances", "instance types, of bench/tco/catalog/instances.yaml; all if not given")
	f.StringVar(&cfg.Shape, "shape", cfg.Shape, "load whose CPU was measured: A large batches, B Java defaults, C large batches with TLS")
	f.IntVar(&cfg.Machine.Zones, "zones", cfg.Machine.Zones, "availability zones, each with one such agent")
	f.Float64Var(&cfg.Machine.Fanout, "fanout", cfg.Machine.Fanout, "groups that read everything")
	f.Float64Var(&cfg.Machine.CPUHeadroom, "cpu-headroom", cfg.Machine.CPUHeadroom, "share of the CPU that stays free")
	f.Float64Var(&cfg.Machine.NetworkHeadroom, "network-headroom", cfg.Machine.NetworkHeadroom, "share of the network's baseline that stays free")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&asCSV, "csv", false, "print CSV of --table clients or capacity")
	return cmd
}
