package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/freshet-io/freshet/bench/observe"
	"github.com/freshet-io/freshet/bench/omb"
	"github.com/freshet-io/freshet/bench/report"
	"github.com/freshet-io/freshet/bench/worker"
	"github.com/freshet-io/freshet/bench/workloads"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

// runFlags are those of `bench run` that need work before the run.
type runFlags struct {
	drivers, workers  []string
	workersFile, zone string
	extra, json       bool
	began             time.Time // of the run that is under way
	scale             workloads.Scale
	settings          map[string][]report.Setting // of the workloads by name, where they are scaled
	watched           []string                    // programs whose cost is sampled
	written           []written
}

// written is a result with the time of its run.
type written struct {
	path        string
	began, ends time.Time
}

// annotate leaves beside a result what 'freshet-bench report' cannot see in it.
func (f *runFlags) annotate(path string, p omb.Planned, o *omb.Outcome) error {
	w := written{path: path, began: f.began, ends: time.Now()}
	f.written, f.began = append(f.written, w), w.ends
	return report.WriteNotes(path, report.Notes{
		PeriodSeconds: p.Workload.Interval().Seconds(), Settings: f.settings[p.Name], Warnings: o.Warnings,
	})
}

func newRun(p program.Program) *cobra.Command {
	flags := runFlags{settings: make(map[string][]report.Setting)}
	var set omb.Set
	cmd := &cobra.Command{
		Use:   "run WORKLOAD...",
		Short: "Run workloads of the OpenMessaging Benchmark against any Kafka endpoint",
		Long: `Reads workload and driver files of the OpenMessaging Benchmark framework unchanged, those of its Kafka driver, and
does what the framework does: same course of a run, same lines, same result files. Clients are franz-go's; properties
of the Java clients are taken over as far as there is a counterpart, and named in a warning if not. A published
workload can be given by its name instead of a file ('freshet-bench workloads' lists them); it brings its driver.

Every run writes WORKLOAD-DRIVER-yyyy-MM-dd-HH-mm-ss.json, which 'freshet-bench report' shows with charts. Ended by
Ctrl-C, it writes what was measured until then.`,
		Example: "  freshet-bench run -d driver-kafka/kafka-throughput.yaml workloads/1-topic-16-partitions-1kb.yaml\n" +
			"  freshet-bench run warpstream-vanity --bootstrap-server localhost:9092 --scale 0.02 --duration 1m",
		Args: program.Takes(1, -1, "workload files or names"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if set.Runs, err = flags.plan(args, p.Streams.Err); err != nil {
				return err
			}
			if set.Worker, err = flags.worker(); err != nil {
				return err
			}
			set.Out = p.Streams.Out
			if flags.json {
				set.Out, set.JSON = p.Streams.Err, p.Streams.Out
			}
			set.Progress, set.Written = terminal(p.Streams.Err), flags.annotate
			return flags.observed(cmd.Context(), set.Run)
		},
	}
	f := cmd.Flags()
	f.VarP(config.List(&flags.drivers), "drivers", "d", "driver files; each workload runs with each")
	f.VarP(config.List(&flags.workers), "workers", "w", "addresses of workers ('freshet-bench worker') that make the load, as http://host:port; by default this process does")
	f.StringVar(&flags.workersFile, "workers-file", "", "YAML file with addresses of workers, as 'workers: [...]'")
	f.BoolVarP(&flags.extra, "extra", "x", false, "let two thirds of the workers consume rather than half, for backlogs")
	f.StringVarP(&set.Dir, "output", "o", ".", "directory for result files")
	f.StringVar(&set.Bootstrap, "bootstrap-server", "", "host:port,... instead of bootstrap.servers of the drivers")
	f.StringVar(&flags.zone, "zone", "", "what stands for {zone.id} in the property client.id; workers have a flag of their own")
	f.Var(config.List(&flags.watched), "observe", "programs whose CPU and memory are sampled during runs, for the report: NAME=PID or NAME=URL of their metrics")
	f.BoolVar(&flags.json, "json", false, "print results as JSON, and lines to standard error")
	bindScale(f, &flags.scale)
	return cmd
}

// observed makes the runs, and leaves beside each result what the programs watched took meanwhile.
func (f *runFlags) observed(ctx context.Context, run func(context.Context) error) error {
	f.began = time.Now()
	if len(f.watched) == 0 {
		return run(ctx)
	}
	targets, err := observe.ParseTargets(f.watched)
	if err != nil {
		return &cli.UsageError{Message: err.Error()}
	}
	stop, err := observe.Start(ctx, observe.Config{Targets: targets})
	if err != nil {
		return &cli.UsageError{Message: err.Error()}
	}
	err = run(ctx)
	series := stop()
	for _, w := range f.written {
		err = errors.Join(err, series.Window(w.began, w.ends).WriteFile(observe.PathFor(w.path)))
	}
	return err
}

// plan reads workloads and drivers. Warnings go to errs.
func (f *runFlags) plan(args []string, errs io.Writer) ([]omb.Planned, error) {
	drivers := make([]omb.Driver, len(f.drivers))
	for i, path := range f.drivers {
		d, warnings, err := omb.ReadDriver(path)
		warn(errs, warnings)
		if err != nil {
			return nil, &cli.UsageError{Message: err.Error()}
		}
		drivers[i] = d
	}
	var runs []omb.Planned
	for _, arg := range args {
		name, w, with, err := f.workload(arg, drivers, errs)
		if err != nil {
			return nil, &cli.UsageError{Message: err.Error()}
		}
		if f.scale != (workloads.Scale{}) {
			var scaled []workloads.Setting
			w, scaled = f.scale.Workload(w)
			for _, s := range scaled {
				f.settings[name] = append(f.settings[name], report.Setting(s))
			}
		}
		for _, d := range with {
			runs = append(runs, omb.Planned{Name: name, Driver: d, Workload: w})
		}
	}
	return runs, nil
}

// workload reads a file, or takes a published workload with its driver unless others are given.
func (f *runFlags) workload(arg string, drivers []omb.Driver, errs io.Writer) (string, omb.Workload, []omb.Driver, error) {
	w, warnings, err := omb.ReadWorkload(arg)
	warn(errs, warnings)
	switch {
	case err == nil && len(drivers) == 0:
		return "", w, nil, errors.New("no driver: give its file with --drivers")
	case !errors.Is(err, os.ErrNotExist):
		return omb.Stem(arg), w, drivers, err
	}
	entries, unknown := workloads.Select([]string{arg})
	if unknown != nil || entries[0].Kind != workloads.OMB {
		return "", w, nil, fmt.Errorf("%w, and no published workload of the OpenMessaging Benchmark has that name", err)
	}
	w, err = entries[0].Workload()
	if len(drivers) > 0 || err != nil {
		return entries[0].Name, w, drivers, err
	}
	d, err := entries[0].DriverFile()
	return entries[0].Name, w, []omb.Driver{d}, err
}

func warn(to io.Writer, warnings []string) {
	for _, w := range warnings {
		fmt.Fprintf(to, "warning: %s\n", w)
	}
}

// worker returns the worker that makes the load.
func (f *runFlags) worker() (worker.Worker, error) {
	addresses := f.workers
	if f.workersFile != "" {
		if len(addresses) > 0 {
			return nil, &cli.UsageError{Message: "--workers and --workers-file exclude each other"}
		}
		var err error
		if addresses, err = omb.ReadWorkers(f.workersFile); err != nil {
			return nil, &cli.UsageError{Message: err.Error()}
		}
	}
	if len(addresses) == 0 {
		return worker.NewLocal(f.zone), nil
	}
	remotes := make([]worker.Worker, len(addresses))
	for i, address := range addresses {
		remote, err := worker.NewRemote(address)
		if err != nil {
			return nil, &cli.UsageError{Message: err.Error()}
		}
		remotes[i] = remote
	}
	return worker.NewEnsemble(remotes, f.extra), nil
}

// terminal returns the stream if it is a terminal, else nil.
func terminal(stream io.Writer) io.Writer {
	if file, ok := stream.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return file
	}
	return nil
}
