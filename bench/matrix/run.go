package matrix

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/freshet-io/freshet/bench/observe"
	"github.com/freshet-io/freshet/bench/report"
	"github.com/freshet-io/freshet/bench/workloads"
)

// ErrFailed says that workloads failed. The report tells why.
var ErrFailed = errors.New("workloads failed")

// errTooLong is why a workload was ended that took much longer than it should.
var errTooLong = errors.New("took too long")

// outcome is what became of a workload.
type outcome struct {
	entry    workloads.Entry
	result   string // path of the result file; "" if there is none
	notes    report.Notes
	began    time.Time // of what was measured
	ended    time.Time
	took     time.Duration // all in all
	err      error
	observed *observe.Series
	run      *report.Run // the result; nil if there is none
	figures  *Figures    // likewise
}

// matrix is a run.
type matrix struct {
	cfg      Config
	entries  []workloads.Entry
	outcomes []outcome
	bar      *bar
}

// Run runs the workloads and writes the report, also of what ran before ctx ended.
func Run(ctx context.Context, cfg Config) error {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return err
	}
	entries, err := workloads.Select(cfg.Only)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return fmt.Errorf("make directory of results: %w", err)
	}
	m := &matrix{cfg: cfg, entries: entries}
	m.bar = newBar(cfg.Progress, m.expected())
	for i, e := range entries {
		if ctx.Err() != nil {
			break
		}
		m.bar.begin(fmt.Sprintf("%d/%d %s", i+1, len(entries), e.Name))
		m.outcomes = append(m.outcomes, m.one(ctx, e))
		m.bar.end()
		debug.FreeOSMemory() // histograms and payloads of a workload are large, and the broker may be on this machine
		m.tell(i)
	}
	return errors.Join(m.report(), m.summarize(), ctx.Err(), m.failure())
}

// one runs a workload from its topics to its files.
func (m *matrix) one(ctx context.Context, e workloads.Entry) (o outcome) {
	start := time.Now()
	defer func() { o.took = time.Since(start) }()
	o = outcome{entry: e, notes: report.Notes{Title: e.Name}}
	logs, err := os.Create(filepath.Join(m.cfg.Dir, e.Name+".log"))
	if err != nil {
		o.err = fmt.Errorf("make log: %w", err)
		return o
	}
	defer func() { o.err = errors.Join(o.err, logs.Close()) }()
	if limit := m.cfg.limit(); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: more than %v", errTooLong, limit))
		defer cancel()
	}
	stop, err := m.observe(ctx)
	if err != nil {
		o.err = err
		return o
	}
	if e.Kind == workloads.Perf {
		m.perf(ctx, &o, logs)
	} else {
		m.omb(ctx, &o, logs)
	}
	o.observed = stop()
	if o.err != nil && ctx.Err() != nil {
		o.err = errors.Join(context.Cause(ctx), o.err)
	}
	if o.result != "" {
		o.err = errors.Join(o.err, o.annotate(), o.load())
	}
	return o
}

func (m *matrix) observe(ctx context.Context) (stop func() *observe.Series, err error) {
	if len(m.cfg.Targets) == 0 {
		return func() *observe.Series { return nil }, nil
	}
	if stop, err = observe.Start(ctx, observe.Config{Targets: m.cfg.Targets}); err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	return stop, nil
}

// annotate writes notes and observations beside the result.
func (o *outcome) annotate() error {
	if o.observed == nil {
		return report.WriteNotes(o.result, o.notes)
	}
	return errors.Join(
		report.WriteNotes(o.result, o.notes), o.observed.Window(o.began, o.ended).WriteFile(observe.PathFor(o.result)))
}

// load reads the result as the report shows it.
func (o *outcome) load() error {
	run, err := report.Load(o.result, 0)
	if err != nil {
		return err
	}
	run.Name = o.entry.Name
	o.run, o.figures = &run, newFigures(&run.Figures)
	return nil
}

// failure names the workloads that failed.
func (m *matrix) failure() error {
	var faults []error
	for _, o := range m.outcomes {
		if o.err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", o.entry.Name, o.err))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d %w:\n%w", len(faults), len(m.outcomes), ErrFailed, errors.Join(faults...))
}
