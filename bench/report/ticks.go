package report

import (
	"math"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot"
)

// ticks are at multiples of 1, 2, 2.5 or 5 times a power of ten, four to seven of them from zero.
type ticks struct{}

// Ticks implements plot.Ticker.
func (ticks) Ticks(low, high float64) []plot.Tick {
	step := ceil((high-low)/6, 1, 2, 2.5, 5)
	var out []plot.Tick
	for i := math.Ceil(low / step); i*step <= high; i++ {
		out = append(out, plot.Tick{Value: i * step, Label: number(i * step)})
	}
	return out
}

// logTicks are at 1, 2 and 5 of every decade; over more than three decades at 1 only.
type logTicks struct{}

// Ticks implements plot.Ticker.
func (logTicks) Ticks(low, high float64) []plot.Tick {
	var out []plot.Tick
	many := math.Log10(high/low) > 3
	for decade := decadeOf(low); decade <= high; decade *= 10 {
		for _, step := range []float64{1, 2, 5} {
			v := decade * step
			if v < low*0.999 || v > high*1.001 || many && step != 1 {
				continue
			}
			out = append(out, plot.Tick{Value: v, Label: number(v)})
		}
	}
	return out
}

func decadeOf(v float64) float64 { return math.Pow(10, math.Floor(math.Log10(v))) }

// logFloor gives the largest of 1, 2 and 5 times a power of ten that is not above v, which is positive.
func logFloor(v float64) float64 {
	decade := decadeOf(v)
	for _, step := range []float64{5, 2} {
		if v >= decade*step {
			return decade * step
		}
	}
	return decade
}

// logCeil gives the smallest one that is not below v.
func logCeil(v float64) float64 { return ceil(v, 1, 2, 5) }

// ceil gives the smallest number that is not below v and one of some multiples, below ten and rising, of a power of ten.
func ceil(v float64, multiples ...float64) float64 {
	decade := decadeOf(v)
	for _, m := range multiples {
		if v <= decade*m {
			return decade * m
		}
	}
	return decade * 10
}

// number writes a value with three significant digits or more, and with separators.
func number(v float64) string {
	digits := 0
	if a := math.Abs(v); a > 0 && a < 100 {
		digits = min(6, 2-int(math.Floor(math.Log10(a))))
	}
	unit := math.Pow(10, float64(digits))
	return humanize.Commaf(math.Round(v*unit) / unit)
}
