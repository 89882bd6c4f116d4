package latency

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/freshet-io/freshet/bench/tco/catalog"
)

// What is added to the PUT's own median: idle latency is also the linger and the commit, loaded latency also the commit,
// and on average half of the time between two seals.
const (
	idleAllowance   = 30 * time.Millisecond
	loadedAllowance = 20 * time.Millisecond
)

// Figures are what was measured at one point.
type Figures struct {
	Point
	Records  int // acknowledged in the measured time
	Rate     float64
	Produce  Quantiles // from handing a record to its client to the acknowledgement
	Floor    Quantiles // of Produce, as the PUTs were; of a load
	EndToEnd Quantiles // from there to a consumer
	PutP50   time.Duration
	Seals    float64 // bundles a second
	Puts     float64 // PUTs a second, hedges and retries among them
	USDPuts  float64 // of those PUTs, a month
	USDBytes float64 // of the bytes put, where the store charges for them, a month
}

// Quantiles of a latency.
type Quantiles struct{ P50, P99 time.Duration }

// Bounds are what a point's figures are to stay below; zero is no bound.
type Bounds struct{ Produce, EndToEnd Quantiles }

// Bounds of these figures: they follow from what the store took and from how often bundles were sealed, and are at most
// the latencies published of a comparable system (250 and 500 ms, end to end 500 and 900 ms) over a standard store, and 40
// and 80 ms over an express one.
func (f *Figures) Bounds() (b Bounds) {
	switch {
	case f.Load == 0:
		b.Produce.P50 = f.PutP50 + idleAllowance
	case f.Seals > 0:
		b.Produce.P50 = time.Duration(float64(time.Second)/(2*f.Seals)) + f.PutP50 + loadedAllowance
	}
	if f.Model == ModelExpress {
		b.Produce.P50, b.Produce.P99 = min(b.Produce.P50, 40*time.Millisecond), 80*time.Millisecond
		return b
	}
	b.Produce.P99 = 500 * time.Millisecond
	b.EndToEnd = Quantiles{500 * time.Millisecond, 900 * time.Millisecond}
	return b
}

// storePrice is what a store charges.
type storePrice struct {
	put float64 // USD
	gib float64 // USD for each GiB put
}

// monthSeconds is 730 hours, a twelfth of a year, as of bench/tco.
const monthSeconds = 730 * 3600

func priceOf(prices *catalog.Prices, model string) (p storePrice, err error) {
	set, err := prices.Set(catalog.Own)
	if err != nil {
		return p, fmt.Errorf("prices: %w", err)
	}
	get := func(name string) (usd float64) {
		price, getErr := set.Get(name)
		if getErr != nil {
			err = getErr
		}
		return price.USD.InexactFloat64()
	}
	if model == ModelExpress {
		p = storePrice{put: get("express-put"), gib: get("express-upload")}
	} else {
		p = storePrice{put: get("s3-put")}
	}
	return p, err
}

// month is USD a month for so many PUTs and bytes a second.
func (p storePrice) month(puts, bytes float64) (usdPuts, usdBytes float64) {
	return puts * p.put * monthSeconds, bytes / (1 << 30) * p.gib * monthSeconds
}

// printTable prints a line for each point, figures in ms, bounds in brackets, and what is over its bound with a "!".
func printTable(w io.Writer, all []*Figures) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "store\tbudget\tload\trecords\tproduce p50\tp99\tfloor p50\tp99\tend to end p50\tp99\tPUT p50\tseals/s\tPUTs/s\tUSD of PUTs\tof bytes")
	for _, f := range all {
		b := f.Bounds()
		fmt.Fprintf(t, "%s\t%g\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.1f\t%.1f\t%.0f\t%.0f\n", f.Model, f.Budget, f.load(), f.Records,
			beside(f.Produce.P50, b.Produce.P50), beside(f.Produce.P99, b.Produce.P99),
			floor(f.Floor.P50), floor(f.Floor.P99),
			beside(f.EndToEnd.P50, b.EndToEnd.P50), beside(f.EndToEnd.P99, b.EndToEnd.P99),
			beside(f.PutP50, 0), f.Seals, f.Puts, f.USDPuts, f.USDBytes)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	fmt.Fprintln(w, "latencies in ms (bound), ! over it; floor: the wait for a PUT, that PUT and those of the producer's bursts before, and nothing else")
	fmt.Fprintln(w, "USD a zone and month of 730 hours")
	return nil
}

func beside(d, bound time.Duration) string {
	text := ms(d)
	if bound == 0 {
		return text
	}
	text += " (" + ms(bound) + ")"
	if d > bound {
		text += "!"
	}
	return text
}

func floor(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return ms(d)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }
