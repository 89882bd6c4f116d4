package compare

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/freshet-io/freshet/bench/report"
)

// facts are what a table has to say beside figures.
type facts struct {
	Date     time.Time
	Workload string // name
	Versions []string
	Machine  string
	Command  string
	Setup    []string
	Settings []report.Setting
}

// headings of the main table.
var headings = []string{"figure", "unit", "Apache Kafka", "Freshet", "Freshet / Kafka", "of each pair"}

// cells gives the main table's cells: medians with the range in brackets.
func cells(rows []row) [][]string {
	var out [][]string
	for _, r := range rows {
		ratios := make([]string, len(r.ratios))
		for i, v := range r.ratios {
			ratios[i] = decimal(v, 2)
		}
		out = append(out, []string{
			r.name, r.unit, ranged(r.kafka, r.digits), ranged(r.freshet, r.digits), decimal(r.ratio.Median, 2), strings.Join(ratios, " "),
		})
	}
	return out
}

// ranged gives "median (low..high)", or the median alone if all are the same.
func ranged(s Spread, digits int) string {
	median, low, high := decimal(s.Median, digits), decimal(s.Low, digits), decimal(s.High, digits)
	if low == high {
		return median
	}
	return median + " (" + low + ".." + high + ")"
}

func decimal(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }

// writeMarkdown writes the comparison for documents.
func writeMarkdown(w io.Writer, f facts, pairs []pair, compared []row) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Apache Kafka and Freshet, %s, %s\n\n", f.Workload, f.Date.Format(time.DateOnly))
	fmt.Fprintf(&b, "- Command: `%s`\n- Machine: %s\n- Versions: %s\n", f.Command, f.Machine, strings.Join(f.Versions, "; "))
	fmt.Fprintf(&b, "- Runs: %d of each, in pairs, fresh data each time; first in turn: %s\n", len(pairs), strings.Join(firsts(pairs), ", "))
	for _, line := range f.Setup {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	b.WriteString("\nMedian (lowest..highest) of the runs; the ratio is the median of the pairs' ratios.\n\n")
	markdown(&b, headings, cells(compared))
	fmt.Fprintf(&b, "\nMessages not published: Kafka %s, Freshet %s.\n",
		decimal(errorsOf(pairs, func(p *pair) *report.Run { return &p.kafka }), 0),
		decimal(errorsOf(pairs, func(p *pair) *report.Run { return &p.freshet }), 0))
	if lines := warnings(pairs); len(lines) > 0 {
		b.WriteString("\nWarnings:\n\n- " + strings.Join(lines, "\n- ") + "\n")
	}
	b.WriteString("\n## Workload\n\n")
	var settings [][]string
	for _, s := range f.Settings {
		settings = append(settings, []string{s.Name, s.Original, s.Effective})
	}
	markdown(&b, []string{"setting", "original", "effective"}, settings)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// warnings gives those of the runs, with the run's name.
func warnings(pairs []pair) (lines []string) {
	for i := range pairs {
		for _, r := range []*report.Run{&pairs[i].kafka, &pairs[i].freshet} {
			for _, w := range r.AllWarnings() {
				lines = append(lines, r.Name+": "+w)
			}
		}
	}
	return lines
}

// markdown writes a table with columns as wide as their widest cell, so that it reads as text, too.
func markdown(b *strings.Builder, head []string, rows [][]string) {
	widths := make([]int, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	line := func(row []string, fill string) {
		for i, cell := range row {
			b.WriteString("| " + cell + strings.Repeat(fill, widths[i]-len([]rune(cell))) + " ")
		}
		b.WriteString("|\n")
	}
	line(head, " ")
	line(make([]string, len(head)), "-")
	for _, row := range rows {
		line(row, " ")
	}
}
