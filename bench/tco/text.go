package tco

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Write prints the table for people: figures, what is published, and the formula of each line; notes follow by number.
func (t *Table) Write(w io.Writer) {
	fmt.Fprintln(w, t.Title)
	if t.Source != "" {
		fmt.Fprintf(w, "  source: %s\n", t.Source)
	}
	fmt.Fprintf(w, "  prices: %s\n", t.Prices)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	header := []string{"line", "unit", "computed"}
	comparing := t.Source != ""
	if comparing {
		header = append(header, "published", "difference", "verdict")
	}
	fmt.Fprintf(tab, "%s\t  formula\n", strings.Join(header, "\t"))
	notes := &footnotes{}
	for _, l := range t.Lines {
		fmt.Fprintf(tab, "%s%s\t%s\t%s\t", l.Name, notes.mark(l.Note), l.Unit, l.figure())
		if comparing {
			fmt.Fprintf(tab, "%s\t%s\t%s\t", l.printed(), l.differs(), l.Verdict())
		}
		fmt.Fprintf(tab, "  %s\n", l.Formula)
	}
	tab.Flush()
	for i, n := range notes.texts {
		fmt.Fprintf(w, "  [%d] %s\n", i+1, n)
	}
	for _, n := range t.Notes {
		fmt.Fprintf(w, "  %s\n", n)
	}
}

// figure is the computed one: money to the cent at least, all else to the places printed.
func (l Line) figure() string {
	places := l.Places
	if strings.HasPrefix(l.Unit, "USD") {
		places = max(places, 2)
	}
	return grouped(l.Computed.StringFixed(places))
}

func (l Line) printed() string {
	if !l.Published.Valid {
		return ""
	}
	return grouped(l.Published.Decimal.StringFixed(l.Places))
}

func (l Line) differs() string {
	if !l.Published.Valid {
		return ""
	}
	return grouped(l.Difference().StringFixed(l.Places))
}

// footnotes numbers notes; the same text keeps its number.
type footnotes struct{ texts []string }

func (f *footnotes) mark(text string) string {
	if text == "" {
		return ""
	}
	for i, have := range f.texts {
		if have == text {
			return fmt.Sprintf(" [%d]", i+1)
		}
	}
	f.texts = append(f.texts, text)
	return fmt.Sprintf(" [%d]", len(f.texts))
}
