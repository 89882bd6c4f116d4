package matrix

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet-io/freshet/bench/report"
)

// report writes the page of all results.
func (m *matrix) report() error {
	page := report.Page{Title: "Published workloads", Lead: m.lead(), Tables: []report.Table{m.table()}, DPI: m.cfg.dpi}
	for _, o := range m.outcomes {
		if o.run != nil {
			page.Runs = append(page.Runs, *o.run)
		}
	}
	if err := page.Write(m.cfg.Dir); err != nil {
		return err
	}
	fmt.Fprintf(m.cfg.Out, "report: %s\n", filepath.Join(m.cfg.Dir, report.IndexFile))
	return nil
}

func (m *matrix) lead() []string {
	s := m.cfg.Scale
	size, length := "at the published rates and numbers of clients", "for the published lengths"
	if s.Factor != 0 && s.Factor != 1 {
		size = fmt.Sprintf("at %s of the published rates and numbers of clients, which are at least one each", strconv.FormatFloat(s.Factor, 'g', -1, 64))
	}
	if s.Duration > 0 {
		length = fmt.Sprintf("with warm-up, backlog and test compressed into %v", s.Duration)
	}
	lead := []string{
		fmt.Sprintf("Public workloads of Kafka-compatible systems on object storage, run against %s one after the other %s, %s. "+
			"Topics, partitions, subscriptions and sizes of messages are the published ones.", m.cfg.Bootstrap, size, length),
		"Each run lists its settings, as published and as they were. Figures at another scale than the published one are no comparison with published figures.",
	}
	for _, o := range m.outcomes {
		if o.err != nil {
			lead = append(lead, o.entry.Name+" "+o.fault())
		}
	}
	return lead
}

// table tells what became of every workload. Cells are short: errors are paragraphs, sources are settings of the runs.
func (m *matrix) table() report.Table {
	t := report.Table{Title: "Workloads", Head: []string{"workload", "outcome", "warnings", "took"}}
	for _, o := range m.outcomes {
		took := o.took.Round(100 * time.Millisecond).String()
		t.Rows = append(t.Rows, []string{o.entry.Name, o.status(), strconv.Itoa(len(o.warnings())), took})
	}
	for _, e := range m.entries[len(m.outcomes):] {
		t.Rows = append(t.Rows, []string{e.Name, "not run", "", ""})
	}
	return t
}

func (o *outcome) status() string {
	if o.err != nil {
		return "failed"
	}
	return "measured"
}

// fault is the error in one line.
func (o *outcome) fault() string {
	return fmt.Sprintf("failed: %s", strings.ReplaceAll(o.err.Error(), "\n", "; "))
}

// warnings are those of the run and of what was watched.
func (o *outcome) warnings() []string {
	if o.observed == nil {
		return o.notes.Warnings
	}
	return slices.Concat(o.notes.Warnings, o.observed.Warnings)
}

// tell says what became of the workload that ran last.
func (m *matrix) tell(i int) {
	o := &m.outcomes[i]
	m.bar.clear()
	status := fmt.Sprint(o.figures)
	if o.err != nil {
		status = o.fault()
	}
	fmt.Fprintf(m.cfg.Out, "%2d/%d  %-30s %6.1fs  %s\n", i+1, len(m.entries), o.entry.Name, o.took.Seconds(), status)
	for _, w := range o.warnings() {
		fmt.Fprintf(m.cfg.Out, "       warning: %s\n", w)
	}
}
