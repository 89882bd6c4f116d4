package report

import (
	"math"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot"
)

// ticks are the library's places with numbers that people read.
type ticks struct{}

// Ticks implements plot.Ticker.
func (ticks) Ticks(low, high float64) []plot.Tick {
	var out []plot.Tick
	for _, t := range (plot.DefaultTicks{}).Ticks(low, high) {
		if !t.IsMinor() {
			out = append(out, plot.Tick{Value: t.Value, Label: number(t.Value)})
		}
	}
	return out
}

// logTicks are at 1, 2 and 5 of every decade.
type logTicks struct{}

// Ticks implements plot.Ticker.
func (logTicks) Ticks(low, high float64) []plot.Tick {
	var out []plot.Tick
	many := math.Log10(high/low) > 3
	for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
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

// logFloor and logCeil give the next of 1, 2 and 5 times a power of ten.
func logFloor(v float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{5, 2} {
		if v >= decade*step {
			return decade * step
		}
	}
	return decade
}

func logCeil(v float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 5} {
		if v <= decade*step {
			return decade * step
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
