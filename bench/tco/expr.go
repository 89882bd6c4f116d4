package tco

import (
	"math"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/freshet-io/freshet/bench/tco/catalog"
)

// strength is how tightly an expression's outermost operation binds.
type strength int

const (
	sum strength = iota
	product
	atom
)

// divisionPlaces is the precision of divisions, in decimal places: far below a micro-dollar even after what a month
// multiplies it by.
const divisionPlaces = 24

// Expr is a number together with how it came about. The zero value is not valid; make one by num, dec or usd.
type Expr struct {
	text  string
	value decimal.Decimal
	binds strength
}

// num is a number written in the code; a bad one panics.
func num(amount, unit string) Expr { return dec(decimal.RequireFromString(amount), unit) }

// count is a whole number.
func count(n int64, unit string) Expr { return dec(decimal.NewFromInt(n), unit) }

func dec(d decimal.Decimal, unit string) Expr {
	text := grouped(d.String())
	switch {
	case strings.HasPrefix(unit, "/"):
		text += unit
	case unit != "":
		text += " " + unit
	}
	return Expr{text: text, value: d, binds: atom}
}

// rounded is a quantity as it is shown: to so many places, and computed with like that.
func rounded(f float64, places int32, unit string) Expr {
	return dec(decimal.NewFromFloat(f).Round(places), unit)
}

// placesOf is how many decimal places show four digits of f, and never fewer than two.
func placesOf(f float64) int32 {
	if f <= 0 {
		return 2
	}
	return max(2, 4-int32(math.Ceil(math.Log10(f))))
}

// usd is the price of a unit.
func usd(p catalog.Price) Expr {
	return Expr{text: "$" + p.USD.String() + "/" + p.Unit, value: p.USD, binds: atom}
}

// dollars is an amount of money, shown to so many places.
func dollars(d decimal.Decimal, places int32) Expr {
	return Expr{text: "$" + grouped(d.StringFixed(places)), value: d, binds: atom}
}

// several is n of something that is written with an s if there is not one.
func several(n int, what string) Expr {
	if n != 1 {
		what += "s"
	}
	return count(int64(n), what)
}

func (e Expr) in(min strength) string {
	if e.binds < min {
		return "(" + e.text + ")"
	}
	return e.text
}

func (e Expr) times(others ...Expr) Expr {
	for _, o := range others {
		e = Expr{text: e.in(product) + " x " + o.in(product), value: e.value.Mul(o.value), binds: product}
	}
	return e
}

func (e Expr) over(o Expr) Expr {
	return Expr{text: e.in(product) + " / " + o.in(atom), value: e.value.DivRound(o.value, divisionPlaces), binds: product}
}

func (e Expr) plus(others ...Expr) Expr {
	for _, o := range others {
		e = Expr{text: e.text + " + " + o.text, value: e.value.Add(o.value), binds: sum}
	}
	return e
}

func (e Expr) minus(o Expr) Expr {
	return Expr{text: e.text + " - " + o.in(product), value: e.value.Sub(o.value), binds: sum}
}

// most is the largest of the expressions.
func most(exprs ...Expr) Expr {
	texts, largest := make([]string, len(exprs)), exprs[0].value
	for i, e := range exprs {
		texts[i] = e.text
		largest = decimal.Max(largest, e.value)
	}
	return Expr{text: "max(" + strings.Join(texts, ", ") + ")", value: largest, binds: atom}
}

// grouped puts commas between thousands of a decimal number.
func grouped(number string) string {
	sign := ""
	if rest, negative := strings.CutPrefix(number, "-"); negative {
		sign, number = "-", rest
	}
	whole, fraction, _ := strings.Cut(number, ".")
	var b strings.Builder
	for i, digit := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	if fraction != "" {
		b.WriteString("." + fraction)
	}
	return sign + b.String()
}
