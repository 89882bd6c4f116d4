package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/bench/latency"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

func newLatency(p program.Program) *cobra.Command {
	cfg := latency.Config{Hedge: true}
	var budgets, loads []string
	cfg.ApplyDefaults()
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "Measure produce and end-to-end latency by object store, PUT budget and load",
		Long: `Measures over a bucket in memory that is as slow as a model of a real object store says, each latency beside its
bound, and beside what the PUTs cost. Idle is one record at a time, slower than the PUT budget. Every record's offset is
checked. A measurement of each combination takes --warm-up and then --duration, or longer at low budgets (--puts).`,
		Example: "  freshet-bench latency --models s3-standard --budgets 4,8,16 --loads 0,10MiB,60MiB --chart latency.svg",
		Args:    program.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Out = p.Streams.Out
			var faults [2]error
			cfg.Budgets, faults[0] = parseEach(budgets, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
			if len(loads) > 0 {
				cfg.Loads, faults[1] = parseEach(loads, func(s string) (int64, error) {
					n, err := config.ParseBytes(s)
					return int64(n), err
				})
			}
			if err := errors.Join(append(faults[:], cfg.Validate())...); err != nil {
				return &cli.UsageError{Message: err.Error()}
			}
			cfg.Progress = func(at latency.Point, f *latency.Figures) {
				fmt.Fprintf(p.Streams.Err, "%s: produce p50 %v\n", at, f.Produce.P50)
			}
			_, err := latency.Run(cmd.Context(), cfg)
			return err
		},
	}
	f := cmd.Flags()
	f.Var(config.List(&cfg.Models), "models", "object stores to model, of s3-standard and s3-express")
	f.Var(config.List(&budgets), "budgets", "PUTs a second; if not given, 4, 8 and 16, with s3-express 40")
	f.Var(config.List(&loads), "loads", "bytes a second to produce, 0 for idle; if not given, 0, 10MiB and 60MiB")
	f.DurationVar(&cfg.Duration, "duration", cfg.Duration, "least length of each measurement")
	f.IntVar(&cfg.Puts, "puts", cfg.Puts, "PUTs of the budget that each measurement lasts at least: medians of few are luck")
	f.DurationVar(&cfg.Idle, "idle", 0, "time without load before each measurement, in which PUTs of the budget are saved")
	f.DurationVar(&cfg.WarmUp, "warm-up", cfg.WarmUp, "time before each measurement")
	f.IntVar(&cfg.RecordBytes, "record-bytes", cfg.RecordBytes, "size of a record")
	f.IntVar(&cfg.Partitions, "partitions", cfg.Partitions, "partitions that are produced to")
	f.IntVar(&cfg.Producers, "producers", cfg.Producers, "producers of a load")
	f.BoolVar(&cfg.Hedge, "hedge", cfg.Hedge, "send a second PUT when one takes longer than 19 of 20 do, as agents do by default")
	f.StringVar(&cfg.Chart, "chart", cfg.Chart, "file to draw a chart into: .svg, .png or .html")
	return cmd
}

// parseEach parses a list and reports all its faults at once.
func parseEach[T any](list []string, parse func(string) (T, error)) (values []T, err error) {
	var faults []error
	for _, text := range list {
		v, err := parse(text)
		faults, values = append(faults, err), append(values, v)
	}
	return values, errors.Join(faults...)
}
