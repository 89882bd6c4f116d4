package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/freshet-io/freshet/bench/verify/oracle"
	"github.com/freshet-io/freshet/internal/wait"
)

// Report is what a run did and found.
type Report struct {
	Run        string                 `json:"run"`
	Seed       uint64                 `json:"seed"`
	Began      time.Time              `json:"began"`
	Ended      time.Time              `json:"ended"`
	Clean      bool                   `json:"clean"`
	Findings   int64                  `json:"findings"`
	Classes    map[oracle.Class]int64 `json:"findings_by_class"`
	Kept       []oracle.Finding       `json:"first_findings"` // of each class
	Topics     []TopicReport          `json:"topics"`
	Passes     int64                  `json:"passes"` // readings from the start to the end
	Commits    int64                  `json:"group_commits"`
	Rebalances int64                  `json:"group_generations"`
	Described  int64                  `json:"group_assignments_checked"`
	Errors     map[string]int64       `json:"errors"` // that clients got and the run got over
}

// TopicReport is what was done with one topic.
type TopicReport struct {
	Topic  string        `json:"topic"`
	Counts oracle.Counts `json:"counts"`
	Groups []GroupReport `json:"groups"`
}

// GroupReport is what was done with one group.
type GroupReport struct {
	Group          string `json:"group"`
	Generations    int64  `json:"generations"`
	CommitsChecked int64  `json:"commits_checked"` // committed offsets asked for and compared
	Redelivered    int64  `json:"redelivered"`     // records that members got again, which is allowed
}

func (r *run) report() Report {
	report := Report{
		Run: r.id, Seed: r.cfg.Seed, Began: r.began, Ended: time.Now(), Findings: r.findings.Total(), Classes: r.findings.Counts(),
		Kept: r.findings.Kept(), Passes: r.completed.Load(), Commits: r.commits.Load(), Described: r.described.Load(),
	}
	report.Clean = report.Findings == 0
	for _, t := range r.topics {
		tr := TopicReport{Topic: t.name, Counts: t.history.Counts()}
		for _, g := range t.groups {
			tr.Groups = append(tr.Groups, GroupReport{g.Name, g.Rebalances(), g.Checked(), g.reader.Redelivered()})
			report.Rebalances += g.Rebalances()
		}
		report.Topics = append(report.Topics, tr)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	report.Errors = maps.Clone(r.mu.errors)
	return report
}

// nothingTested adds a finding for each part of the run that checked nothing: it may not pass for clean.
func (r *run) nothingTested() {
	none := func(n int64, t *topic, what string) {
		if n == 0 {
			r.findings.Add(oracle.Finding{Class: oracle.NothingDone, Topic: t.name, Partition: -1, Offset: -1, Evidence: what})
		}
	}
	for _, t := range r.topics {
		c := t.history.Counts()
		none(c.Acked, t, "no record was acknowledged")
		none(c.Read, t, "no record was read")
		none(c.EndsTold, t, "no answer about an end was checked")
		if t.txn {
			none(c.Committed, t, "no transaction was committed")
		}
		for _, g := range t.groups {
			none(g.Checked(), t, "no committed offset of group "+g.Name+" was checked")
			none(g.Rebalances(), t, "no member of group "+g.Name+" was assigned anything")
		}
	}
	if r.completed.Load() == 0 {
		none(0, r.topics[0], "nothing was read from the start to the end")
	}
}

// write writes the report for people, or as JSON.
func (r Report) write(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nran for\t%v\n", r.Ended.Sub(r.Began).Round(time.Second))
	for _, each := range r.Topics {
		each.lines(t)
	}
	fmt.Fprintf(t, "passes from the start\t%d\n", r.Passes)
	fmt.Fprintf(t, "group commits / assignments checked\t%d / %d\n", r.Commits, r.Described)
	fmt.Fprintf(t, "errors that clients got over\t%d\n", sum(r.Errors))
	for _, what := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(t, "  %s\t%d\n", what, r.Errors[what])
	}
	for _, class := range slices.Sorted(maps.Keys(r.Classes)) {
		fmt.Fprintf(t, "FAULTS %s\t%d\n", class, r.Classes[class])
	}
	verdict := "clean"
	if !r.Clean {
		verdict = fmt.Sprintf("%d faults", r.Findings)
	}
	fmt.Fprintf(t, "verdict\t%s\n", verdict)
	return t.Flush()
}

func (t TopicReport) lines(w io.Writer) {
	c := t.Counts
	fmt.Fprintf(w, "%s\t\n", t.Topic)
	fmt.Fprintf(w, "  sent / acknowledged / unknown outcome / read\t%d / %d / %d / %d\n", c.Sent, c.Acked, c.Unknown, c.Read)
	if c.Duplicates > 0 {
		fmt.Fprintf(w, "  duplicates, allowed\t%d\n", c.Duplicates)
	}
	if c.Begun > 0 {
		fmt.Fprintf(w, "  transactions / committed / aborted / unknown outcome\t%d / %d / %d / %d\n", c.Begun, c.Committed, c.Aborted, c.InDoubt)
		fmt.Fprintf(w, "  markers read\t%d\n", c.Markers)
	}
	fmt.Fprintf(w, "  ends checked / blocks of 64 offsets read again\t%d / %d\n", c.EndsTold, c.Compared)
	for _, g := range t.Groups {
		fmt.Fprintf(w, "  %s: generations / committed offsets checked / delivered again\t%d / %d / %d\n", g.Group, g.Generations,
			g.CommitsChecked, g.Redelivered)
	}
}

// progress writes a line now and then until ctx ends.
func (r *run) progress(ctx context.Context) error {
	for wait.For(ctx, r.cfg.Progress) == nil {
		p := r.report()
		var c oracle.Counts
		held := 0
		for i, t := range p.Topics {
			c.Sent += t.Counts.Sent
			c.Acked += t.Counts.Acked
			c.Read += t.Counts.Read
			c.Unknown += t.Counts.Unknown
			c.Begun += t.Counts.Begun
			c.EndsTold += t.Counts.EndsTold
			held += r.topics[i].history.Held()
		}
		r.say("%6s sent %d acked %d read %d unknown %d held %d transactions %d generations %d commits %d passes %d ends %d errors %d FAULTS %d",
			r.elapsed(), c.Sent, c.Acked, c.Read, c.Unknown, held, c.Begun, p.Rebalances, p.Commits, p.Passes,
			c.EndsTold, sum(p.Errors), p.Findings)
	}
	return nil
}

func sum(counts map[string]int64) (n int64) {
	for _, each := range counts {
		n += each
	}
	return n
}

var changing = regexp.MustCompile(`\d+`)

// anonymous makes errors alike that differ in ports, offsets and the like.
func anonymous(text string) string { return changing.ReplaceAllString(text, "N") }
