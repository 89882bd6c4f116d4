package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/freshet-io/freshet/controlplane/registry/httpapi"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/cli/ctl"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

func newCtlClusterLimit(p program.Program) *cobra.Command {
	var limits httpapi.Limits
	return ctlCommand{
		use: "limit CLUSTER-ID", short: "Change limits of a virtual cluster, with an operator key", args: 1, takes: "the id of one cluster", operator: true,
		example: "  freshet ctl cluster limit 3wVHlLX2TQyHyZzkP1s0uA --memory 64MiB --partitions 10000",
		bind:    func(f *pflag.FlagSet) { bindClusterLimits(f, &limits) },
		run: func(ctx context.Context, c ctl.Config, args []string, s cli.Streams) error {
			return ctl.LimitCluster(ctx, c, args[0], limits, s)
		},
	}.command(p)
}

// bindClusterLimits binds the limits that an operator changes. A limit without its flag stays nil.
func bindClusterLimits(f *pflag.FlagSet, l *httpapi.Limits) {
	add := func(kind, name, help string, set func(text string) error) *pflag.Flag {
		added := f.VarPF(optional{kind, set}, name, "", help)
		config.CommandLineOnly(f, name)
		return added
	}
	number := func(field **int64, name, help string) {
		add("int64", name, help+"; 0 for the number that follows from the memory", func(text string) error {
			value, err := strconv.ParseInt(text, 10, 64)
			*field = &value
			return err
		})
	}
	size := func(field **int64, name, help string) {
		add("size", name, help, func(text string) error {
			*field = new(int64)
			return config.Size(*field).Set(text)
		})
	}
	size(&l.Memory, "memory", "memory of the virtual cluster on a control plane, from which other bounds follow; its metadata has a quarter; 16MiB to 64GiB, or 0 for 128MiB")
	size(&l.LogBytes, "log-bytes", "metadata log at which changes are refused until a snapshot is stored; 1MiB to 1GiB, or 0 for 32MiB")
	add("bool", "warm", "keep the metadata in the memory of all control planes, which take the virtual cluster over first", func(text string) error {
		value, err := strconv.ParseBool(text)
		l.Warm = &value
		return err
	}).NoOptDefVal = "true"
	number(&l.Topics, "topics", "maximum topics, with deleted ones that can be undeleted")
	number(&l.Partitions, "partitions", "maximum partitions of all topics")
	number(&l.Groups, "groups", "maximum groups with members or offsets")
	number(&l.GroupMembers, "group-members", "maximum members of a group")
	number(&l.TransactionalIDs, "transactional-ids", "maximum transactional IDs used within 7 days")
	size(&l.OffsetBytes, "offset-bytes", "maximum memory of the offsets of groups; 0 for half of the metadata's memory")
	size(&l.TextBytes, "text-bytes", "maximum length of configs, and of names of topics, groups and transactional IDs; 0 for half of the metadata's memory")
}

// optional is the value of a flag without a default.
type optional struct {
	kind string
	set  func(text string) error
}

func (optional) String() string          { return "" }
func (o optional) Type() string          { return o.kind }
func (o optional) Set(text string) error { return o.set(text) }
