package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	etcdversion "go.etcd.io/etcd/api/v3/version"

	"github.com/freshet-io/freshet/bench/observe"
	"github.com/freshet-io/freshet/bench/omb"
	"github.com/freshet-io/freshet/bench/report"
)

// Files in the directory of a comparison, beside the results and the page.
const (
	TableFile   = "compare.md"   // for documents
	SummaryFile = "summary.json" // for programs
)

// Run makes the pairs of runs, writes results, table and page into Config.Dir, and the table to Config.Out too. The first
// run that fails ends it; what was measured before stays in the directory.
func Run(ctx context.Context, cfg Config) error {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return err
	}
	t, err := cfg.task()
	if err != nil {
		return err
	}
	c := &comparison{cfg: cfg, task: t, load: omb.Run, facts: facts{
		Date: time.Now(), Workload: t.workload.Name, Machine: machine(), Command: cfg.Command, Settings: t.settings,
	}}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	for round := 1; round <= cfg.Rounds; round++ {
		if err := c.pair(ctx, round); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return c.write()
}

// comparison is one that is under way.
type comparison struct {
	cfg     Config
	task    task
	facts   facts
	kafka   system
	freshet system
	load    func(context.Context, omb.Config) (*omb.Outcome, error)
	pairs   []pair
	dpi     int // of the pictures of the page; 0: the usual
}

// prepare finds, or fetches, what runs.
func (c *comparison) prepare(ctx context.Context) error {
	if err := os.MkdirAll(c.cfg.Dir, 0o755); err != nil {
		return fmt.Errorf("make directory of results: %w", err)
	}
	java, err := exec.LookPath(c.cfg.Java)
	if err != nil {
		return fmt.Errorf("find Java, which Apache Kafka needs: %w", err)
	}
	jvm, err := javaVersion(java)
	if err != nil {
		return err
	}
	files, err := findJars(ctx, c.cfg.KafkaHome)
	if err != nil {
		return err
	}
	s3, s3Version, err := findS3Server(ctx, c.cfg.S3Server)
	if err != nil {
		return err
	}
	c.kafka = &kafka{java: java, jars: files, heap: c.cfg.Memory}
	c.freshet = &freshet{s3Server: s3, latency: c.cfg.Latency, memory: c.cfg.Memory}
	c.facts.Versions = []string{
		"Apache Kafka " + files.version, jvm, "Freshet " + c.cfg.Version, "etcd " + etcdversion.Version, s3Version, runtime.Version(),
	}
	c.facts.Setup = c.setup()
	return nil
}

// setup says what was run how, for the reports.
func (c *comparison) setup() []string {
	mib := c.cfg.Memory >> 20
	store := "no latency added: the object store is as near as loopback"
	if c.cfg.Latency != NoLatency {
		store = "each request delayed as the model " + c.cfg.Latency + " says"
	}
	return []string{
		fmt.Sprintf("Apache Kafka: one node, broker and controller (KRaft), heap %d MiB, defaults: acknowledged records are in the page cache", mib),
		fmt.Sprintf("Freshet: one agent (memory limit %d MiB), one control plane with etcd in its process, defaults: acknowledged records are in the S3 server, every byte through it; %s", mib, store),
		"CPU and memory: all processes of each side, the S3 server apart; of the measured part only, peaks since the start",
		"Load: franz-go clients in a process on the same machine",
	}
}

// pair runs both systems, in a round with an odd number Kafka first.
func (c *comparison) pair(ctx context.Context, round int) error {
	p := pair{kafkaFirst: round%2 == 1}
	runKafka := func() (err error) { p.kafka, err = c.run(ctx, c.kafka, round); return err }
	runFreshet := func() (err error) { p.freshet, err = c.run(ctx, c.freshet, round); return err }
	order := []func() error{runFreshet, runKafka}
	if p.kafkaFirst {
		order = []func() error{runKafka, runFreshet}
	}
	for _, run := range order {
		if err := run(); err != nil {
			return err
		}
	}
	c.pairs = append(c.pairs, p)
	return nil
}

// interval is how often processes are sampled.
const interval = 500 * time.Millisecond

// run starts a system with empty data, runs the workload against it and stops it.
func (c *comparison) run(ctx context.Context, s system, round int) (_ report.Run, err error) {
	fmt.Fprintf(c.cfg.Out, "round %d of %d: %s\n", round, c.cfg.Rounds, s.name())
	dir, err := os.MkdirTemp(c.cfg.Work, "freshet-compare-")
	if err != nil {
		return report.Run{}, fmt.Errorf("make directory of data: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	started, err := s.start(ctx, dir)
	if err != nil {
		return report.Run{}, err
	}
	defer started.stop()
	finish, err := observe.Start(ctx, observe.Config{Targets: started.targets, Interval: interval})
	if err != nil {
		return report.Run{}, err
	}
	outcome, err := c.load(ctx, omb.Config{
		Driver: c.task.driver, Workload: c.task.workload, Bootstrap: started.bootstrap, Progress: c.cfg.Progress,
	})
	series := finish()
	if err != nil {
		return report.Run{}, fmt.Errorf("%s: %w", s.name(), err)
	}
	return c.keep(s, round, outcome, series.Window(outcome.Began, outcome.Ended))
}

// keep writes a result with all that belongs to it, and reads it as reports do.
func (c *comparison) keep(s system, round int, outcome *omb.Outcome, series *observe.Series) (report.Run, error) {
	outcome.Result.Driver = s.name()
	short := strings.ToLower(s.name()[strings.LastIndexByte(s.name(), ' ')+1:])
	path := filepath.Join(c.cfg.Dir, fmt.Sprintf("round-%d-%s.json", round, short))
	notes := report.Notes{
		Title: fmt.Sprintf("%s, round %d", s.name(), round), PeriodSeconds: period(c.cfg.Duration).Seconds(),
		Settings: c.task.settings, Warnings: append(outcome.Warnings, c.task.warnings...),
	}
	err := errors.Join(outcome.Result.WriteFile(path), series.WriteFile(observe.PathFor(path)), report.WriteNotes(path, notes))
	if err != nil {
		return report.Run{}, err
	}
	run, err := report.Load(path, 0)
	run.System = s.name()
	return run, err
}

// write writes the summary, the table and the page.
func (c *comparison) write() error {
	compared, err := rows(c.pairs)
	if err != nil {
		return err
	}
	if err := c.writeSummary(compared); err != nil {
		return err
	}
	var table bytes.Buffer
	if err := writeMarkdown(&table, c.facts, c.pairs, compared); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.cfg.Dir, TableFile), table.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	if err := c.page(compared).Write(c.cfg.Dir); err != nil {
		return err
	}
	fmt.Fprintf(c.cfg.Out, "\n%s\nresults and charts: %s\n", &table, filepath.Join(c.cfg.Dir, report.IndexFile))
	return nil
}

func (c *comparison) page(compared []row) report.Page {
	page := report.Page{
		Title: "Apache Kafka and Freshet: " + c.facts.Workload,
		Lead: append([]string{
			c.facts.Date.Format(time.DateOnly) + ". " + c.facts.Machine + ". " + strings.Join(c.facts.Versions, "; ") + ".",
			"Command: " + c.facts.Command,
		}, c.facts.Setup...),
		Tables: []report.Table{{Title: "Median (lowest..highest); ratios pair by pair", Head: headings, Rows: cells(compared)}},
		DPI:    c.dpi,
	}
	for _, p := range c.pairs {
		page.Runs = append(page.Runs, p.kafka, p.freshet)
	}
	return page
}

func (c *comparison) writeSummary(compared []row) error {
	data, err := json.MarshalIndent(summarize(c.facts, c.pairs, compared), "", "  ")
	if err != nil {
		return fmt.Errorf("encode summary: %w", err)
	}
	data = append(data, '\n')
	if err := os.WriteFile(filepath.Join(c.cfg.Dir, SummaryFile), data, 0o644); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	if c.cfg.JSON == nil {
		return nil
	}
	if _, err := c.cfg.JSON.Write(data); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}
