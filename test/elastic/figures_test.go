package elastic

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds that the figures are printed beside.
const (
	// stallBound is how much longer than the steady p99 a record may take while agents come and go in good order.
	stallBound = 500 * time.Millisecond
	// servedBound is how long an agent may take from exec to its first acknowledgement.
	servedBound = time.Second
)

// kind says what a phase's figures are good for.
type kind int

const (
	steady kind = iota // nothing happens
	clean              // agents come, or go by SIGTERM, and others serve
	rough              // agents die
	away               // no agent is left for a while
)

// figure is how long one family's records took in one phase, from send to acknowledgement.
type figure struct {
	phase  string
	kind   kind
	family string
	micros []int64 // ascending
}

func newFigure(phase string, k kind, family string, micros []int64) figure {
	micros = slices.Clone(micros)
	slices.Sort(micros)
	return figure{phase, k, family, micros}
}

// quantile gives the value that this share of the records did not exceed; 0 without records.
func quantile(micros []int64, share float64) time.Duration {
	if len(micros) == 0 {
		return 0
	}
	i := min(int(share*float64(len(micros))), len(micros)-1)
	return time.Duration(micros[i]) * time.Microsecond
}

func (f figure) longest() time.Duration { return quantile(f.micros, 1) }

// String gives the figure as a row of figures.table.
func (f figure) String() string {
	return fmt.Sprintf("| %s | %s | %d | %s | %s | %s |", f.phase, f.family, len(f.micros),
		ms(quantile(f.micros, 0.5)), ms(quantile(f.micros, 0.99)), ms(f.longest()))
}

// figures are those of a whole run.
type figures []figure

// steadyP99 is what a family's records took while nothing happened.
func (fs figures) steadyP99(family string) time.Duration {
	var all []int64
	for _, f := range fs {
		if f.kind == steady && f.family == family {
			all = append(all, f.micros...)
		}
	}
	slices.Sort(all)
	return quantile(all, 0.99)
}

// worst gives the longest of a family's phases of a kind.
func (fs figures) worst(k kind, family string) (longest figure) {
	for _, f := range fs {
		if f.kind == k && f.family == family && f.longest() >= longest.longest() {
			longest = f
		}
	}
	return longest
}

// families gives each that there are figures of.
func (fs figures) families() (names []string) {
	for _, f := range fs {
		names = append(names, f.family)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// table prints the figures, one line a phase and family, and what they come to.
func (fs figures) table() string {
	var b strings.Builder
	fmt.Fprintln(&b, "| phase | producer | records | p50 | p99 | longest |")
	fmt.Fprintln(&b, "|---|---|---|---|---|---|")
	for _, f := range fs {
		fmt.Fprintln(&b, f)
	}
	fmt.Fprintln(&b)
	for _, family := range fs.families() {
		p99, worst := fs.steadyP99(family), fs.worst(clean, family)
		fmt.Fprintf(&b, "%s: steady p99 %s; longest stall in clean scaling %s (%s): %s over it, bound %s\n",
			family, ms(p99), ms(worst.longest()), worst.phase, ms(worst.longest()-p99), ms(stallBound))
	}
	return b.String()
}

// startTable prints how long agents took to serve.
func startTable(all []served) string {
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "started %d at once: %s (bound %s)\n", s.beside, s, ms(servedBound))
	}
	return b.String()
}
