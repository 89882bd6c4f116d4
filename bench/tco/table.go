package tco

import (
	"github.com/shopspring/decimal"
)

// Verdict is how a line's computed figure stands to the published one.
type Verdict string

const (
	// Own is a line that was not published.
	Own Verdict = ""
	// Equal is a figure that comes out, to the last digit printed.
	Equal Verdict = "equal"
	// Given is a published figure whose inputs are not public; it is taken as it is.
	Given Verdict = "given"
	// Rounding is a figure that its source rounded otherwise.
	Rounding Verdict = "rounding"
	// Slip is an arithmetic slip of the source.
	Slip Verdict = "slip"
	// Differs is a figure that does not come out with the prices given, which are not the source's.
	Differs Verdict = "differs"
	// Carried is a figure that is made from one with a slip or another rounding.
	Carried Verdict = "carried on"
)

// USDMonth is the unit of most lines: US dollars a month.
const USDMonth = "USD/month"

// Line is one figure of a bill.
type Line struct {
	Name      string
	Unit      string // USDMonth, USD/hour, PUT/s, ...
	Formula   string // with the numbers put in; "given" where they are not public
	Computed  decimal.Decimal
	Published decimal.NullDecimal
	Places    int32 // decimal places of the published figure, or of how an own one is shown
	Because   Verdict
	Note      string // why it differs, what was assumed, where an input is from
}

// Difference is the published figure less the computed one, both to the places printed; 0 for lines not published.
func (l Line) Difference() decimal.Decimal {
	if !l.Published.Valid {
		return decimal.Zero
	}
	return l.Published.Decimal.Sub(l.Shown())
}

// Shown is the computed figure to the places printed.
func (l Line) Shown() decimal.Decimal { return l.Computed.Round(l.Places) }

// Verdict is Own, Given or Equal, or why the figures differ.
func (l Line) Verdict() Verdict {
	switch {
	case l.Because == Given:
		return Given
	case !l.Published.Valid:
		return Own
	case l.Difference().IsZero():
		return Equal
	case l.Because == Own:
		return Differs
	default:
		return l.Because
	}
}

// Table is one bill, or what belongs to one.
type Table struct {
	ID     string // stable, for --tables and for the field in JSON and CSV
	Title  string
	Source string // of the published figures
	Prices string // region, date and source of the unit prices
	Lines  []Line
	Notes  []string
}

func (t *Table) add(l Line) *Line {
	t.Lines = append(t.Lines, l)
	return &t.Lines[len(t.Lines)-1]
}

// own adds a line that nobody published.
func (t *Table) own(name, unit string, places int32, e Expr) *Line {
	return t.add(Line{Name: name, Unit: unit, Formula: e.text, Computed: e.value, Places: places})
}

// published adds a line with the figure that its source printed; its digits say to which place.
func (t *Table) published(name, unit, figure string, e Expr) *Line {
	l := t.own(name, unit, 0, e)
	l.Published = decimal.NewNullDecimal(decimal.RequireFromString(figure))
	l.Places = max(-l.Published.Decimal.Exponent(), 0)
	return l
}

// given adds a published line, of dollars a month, that nothing public leads to.
func (t *Table) given(name, figure, note string) *Line {
	l := t.published(name, USDMonth, figure, num(figure, ""))
	l.Formula, l.Because, l.Note = "given", Given, note
	return l
}

// total is the sum of lines as they are printed, which is how all sources sum; lines of nothing are left out.
func total(lines ...Line) Expr {
	var parts []Expr
	for _, l := range lines {
		if !l.Shown().IsZero() {
			parts = append(parts, dollars(l.Shown(), l.Places))
		}
	}
	if len(parts) == 0 {
		return dollars(decimal.Zero, 2)
	}
	return parts[0].plus(parts[1:]...)
}

// because gives the reason for which a line differs.
func (l *Line) because(v Verdict, note string) { l.Because, l.Note = v, note }
