package omb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Quantile says that so many percent of values were at most Value.
type Quantile struct {
	Percentile float64 // 0 to 100
	Value      float64 // milliseconds or microseconds, as the field says
}

// Quantiles are a histogram's steps, in ascending order. In files they are an object whose names are percentiles.
type Quantiles []Quantile

// ticks is how many steps the framework takes each time the distance to 100 % has halved.
const ticks = 100

// quantiles takes the steps of a histogram, with values divided by unit.
func quantiles(h *hdrhistogram.Histogram, unit float64) Quantiles {
	q := Quantiles{}
	if h.TotalCount() == 0 {
		return q
	}
	for _, step := range h.CumulativeDistributionWithTicks(ticks) {
		at := Quantile{100 * float64(step.Count) / float64(h.TotalCount()), float64(step.ValueAt) / unit}
		if n := len(q); n > 0 && q[n-1].Percentile == at.Percentile {
			q[n-1] = at
			continue
		}
		q = append(q, at)
	}
	return q
}

// MarshalJSON writes an object whose names look as Java writes numbers.
func (q Quantiles) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, step := range q {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = appendJava(b, step.Percentile)
		b = append(b, '"', ':')
		b = strconv.AppendFloat(b, step.Value, 'f', -1, 64)
	}
	return append(b, '}'), nil
}

// appendJava writes a number of 0 to 100 as Java's Double.toString does, but for very small ones.
func appendJava(b []byte, v float64) []byte {
	n := len(b)
	b = strconv.AppendFloat(b, v, 'f', -1, 64)
	if !bytes.ContainsRune(b[n:], '.') {
		b = append(b, ".0"...)
	}
	return b
}

// UnmarshalJSON reads such an object.
func (q *Quantiles) UnmarshalJSON(from []byte) error {
	var values map[string]float64
	if err := json.Unmarshal(from, &values); err != nil {
		return err
	}
	*q = make(Quantiles, 0, len(values))
	for name, value := range values {
		percentile, err := strconv.ParseFloat(name, 64)
		if err != nil {
			return fmt.Errorf("percentile %q is not a number", name)
		}
		*q = append(*q, Quantile{percentile, value})
	}
	slices.SortFunc(*q, func(a, b Quantile) int {
		if a.Percentile < b.Percentile {
			return -1
		}
		return 1
	})
	return nil
}
