package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/freshet-io/freshet/bench/workloads"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/program"
)

func newWorkloads(p program.Program) *cobra.Command {
	cmd := program.Parent("workloads", "List, show and export the published workloads",
		newWorkloadsList(p), newWorkloadsShow(p), newWorkloadsExport(p))
	cmd.Long = `The workloads of public benchmarks of Kafka-compatible systems, as files: workloads and drivers of the OpenMessaging
Benchmark, for it and for freshet-bench run, and option sets of AutoMQ's performance test, for it and for
freshet-bench perf. freshet-bench matrix runs them all.`
	return cmd
}

func newWorkloadsList(p program.Program) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the published workloads", Args: program.Takes(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			w := tabwriter.NewWriter(p.Streams.Out, 0, 0, 2, ' ', 0)
			for _, e := range workloads.All() {
				fmt.Fprintf(w, "%s\t%s\n", e.Name, e.About())
			}
			return w.Flush()
		},
	}
}

func newWorkloadsShow(p program.Program) *cobra.Command {
	var scale workloads.Scale
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show the file of a workload, or what scaling makes of it",
		Args: program.Takes(1, 1, "one name"),
		RunE: func(_ *cobra.Command, args []string) error {
			selected, err := workloads.Select(args)
			if err != nil {
				return &cli.UsageError{Message: err.Error()}
			}
			text, err := scaledText(selected[0], scale)
			if err != nil {
				return err
			}
			_, err = p.Streams.Out.Write(text)
			return err
		},
	}
	bindScale(cmd.Flags(), &scale)
	return cmd
}

// scaledText is the file of a workload; a scaled one as a file of its own, with what changed in its comment.
func scaledText(e workloads.Entry, scale workloads.Scale) ([]byte, error) {
	if scale == (workloads.Scale{}) {
		return []byte(e.Text), nil
	}
	if e.Kind == workloads.Perf {
		return nil, &cli.UsageError{Message: e.Name + " is scaled by freshet-bench perf itself, with the same flags"}
	}
	w, err := e.Workload()
	if err != nil {
		return nil, err
	}
	w, settings := scale.Workload(w)
	body, err := yaml.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("write workload %s: %w", e.Name, err)
	}
	return append([]byte("# Source: "+e.Source()+"\n# Scaled:\n"+workloads.Text(settings)), body...), nil
}

func newWorkloadsExport(p program.Program) *cobra.Command {
	return &cobra.Command{
		Use: "export DIR", Short: "Write all workload, driver and option files into a directory",
		Args: program.Takes(1, 1, "one directory"),
		RunE: func(_ *cobra.Command, args []string) error {
			err := os.CopyFS(args[0], workloads.Files())
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%w: export overwrites nothing", err)
			}
			if err != nil {
				return fmt.Errorf("export workloads: %w", err)
			}
			fmt.Fprintln(p.Streams.Out, filepath.Clean(args[0]))
			return nil
		},
	}
}
