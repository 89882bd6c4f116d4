package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/bench/report"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/program"
)

func newReport(p program.Program) *cobra.Command {
	var dir, title string
	var period time.Duration
	var dpi int
	cmd := &cobra.Command{
		Use:   "report RESULT.json...",
		Short: "Show results of benchmarks as one page with charts",
		Long: `Reads results of the OpenMessaging Benchmark (of freshet-bench run, or of the original) and of freshet-bench perf, and
writes one page that opens without a network, with charts of latency, throughput and, if RESULT.observed.json was
written beside RESULT.json, of CPU, memory and requests to the object store. Each chart is also written as a PNG.`,
		Example: "  freshet-bench report vanity-freshet.json vanity-kafka.json -o report",
		Args:    program.Takes(1, -1, "result files"),
		RunE: func(_ *cobra.Command, args []string) error {
			runs, err := report.LoadAll(args, period)
			if err != nil {
				return err
			}
			if len(runs) == 0 {
				return &cli.UsageError{Message: "want result files: these are notes and series, which are read beside theirs"}
			}
			if err := (report.Page{Title: title, Runs: runs, DPI: dpi}).Write(dir); err != nil {
				return err
			}
			fmt.Fprintln(p.Streams.Out, filepath.Join(dir, report.IndexFile))
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&dir, "output", "o", "report", "directory to write to; made if it is not there")
	f.StringVar(&title, "title", "Benchmark report", "heading of the page")
	f.IntVar(&dpi, "dpi", 144, "resolution of the PNGs, dots per inch")
	f.DurationVar(&period, "period", 0, "length of a period of OpenMessaging Benchmark results, which do not tell it; 0: what the notes beside them say, else 10s")
	return cmd
}
