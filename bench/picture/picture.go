// Package picture draws docs/cost-and-latency.svg, the picture of the README: monthly bills over the rate of producers, from bench/tco,
// beside measured produce latencies over the bill, from a page of bench/results. It measures nothing.
package picture

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/freshet-io/freshet/bench/tco"
	"github.com/freshet-io/freshet/bench/tco/catalog"
)

// Size of the picture and of its two panels, in pixels.
const (
	width, height       = 900, 372
	top, bottom         = 62, 300
	leftOf1, rightOf1   = 80, 376
	leftOf2, rightOf2   = 540, 884
	freshetColor        = "#0072B2" // blue and vermillion of Okabe and Ito's palette, as in bench/report
	kafkaColor          = "#D55E00"
	ink, muted, ruled   = "#1f2328", "#59636e", "#d8dee4"
	retention           = 72 * time.Hour
	latencyRate         = 10 << 20 // bytes per second of the measured load
	labelHeight         = 15
	maxLatency          = 500     // ms, the end of the axis
	minRate, maxRate    = 1, 1024 // MiB/s
	minDollar, maxDolar = 100, 1_000_000
)

// setting is a column of the second panel.
type setting struct {
	store, name string
	budget      float64
	p50, p99    float64 // ms
	dollars     string  // of the month's bill
}

// Draw returns the picture. results is the page of bench/results with the latencies.
func Draw(results string) (string, error) {
	prices, err := catalog.LoadPrices("")
	if err != nil {
		return "", err
	}
	settings := []setting{
		{store: tco.S3Standard, name: "S3 Standard", budget: 4},
		{store: tco.S3Standard, name: "S3 Standard", budget: 8},
		{store: tco.S3Standard, name: "S3 Standard", budget: 16},
		{store: tco.S3Express, name: "S3 Express", budget: 40},
	}
	for i := range settings {
		s := &settings[i]
		if s.p50, s.p99, err = measured(results, s.store, s.budget); err != nil {
			return "", err
		}
		bill, err := tco.Bill("", workload(latencyRate, s.store, s.budget), prices)
		if err != nil {
			return "", err
		}
		s.dollars = grouped(total(bill))
	}
	var freshet, kafka []point
	for rate := minRate; rate <= maxRate; rate *= 2 {
		w := workload(int64(rate)<<20, tco.S3Standard, 0)
		bill, err := tco.Bill("", w, prices)
		if err != nil {
			return "", err
		}
		floor, err := tco.KafkaFloor(w, prices)
		if err != nil {
			return "", err
		}
		freshet = append(freshet, point{float64(rate), total(bill).InexactFloat64()})
		kafka = append(kafka, point{float64(rate), total(floor).InexactFloat64()})
	}
	d := &drawing{}
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="Helvetica, Arial, sans-serif" font-size="12" fill="%s">`,
		width, height, width, height, ink)
	d.printf(`<rect width="%d" height="%d" rx="6" fill="#ffffff"/>`, width, height)
	d.costs(freshet, kafka)
	d.latencies(settings)
	d.printf(`</svg>`)
	return d.String(), nil
}

// workload returns a workload of tco with the defaults but for its rate, store and PUT budget. Budget 0 means the default.
func workload(rate int64, store string, budget float64) tco.Workload {
	w := tco.Workload{Throughput: rate, Retention: retention, Setup: tco.Setup{Store: store, PutBudget: budget}}
	w.ApplyDefaults()
	return w
}

func total(t tco.Table) decimal.Decimal {
	for _, l := range t.Lines {
		if l.Name == "total" {
			return l.Shown()
		}
	}
	panic("a bill without a total")
}

// measured returns p50 and p99 of the last row of a page of results for a store and a PUT budget at 10 MiB/s.
func measured(results, store string, budget float64) (p50, p99 float64, err error) {
	found := false
	for line := range strings.Lines(results) {
		f := strings.Fields(line)
		if len(f) < 9 || f[0] != store || f[1] != fmt.Sprint(budget) || f[2]+f[3] != "10MiB/s" {
			continue
		}
		// store, budget, 10, MiB/s, records, p50, (its bound), p99
		if _, err := fmt.Sscan(f[5]+" "+f[7], &p50, &p99); err != nil {
			return 0, 0, fmt.Errorf("row %q of the results: %w", line, err)
		}
		found = true
	}
	if !found {
		return 0, 0, fmt.Errorf("the results have no row for %s with a PUT budget of %v", store, budget)
	}
	return p50, p99, nil
}

// grouped writes whole dollars with commas.
func grouped(d decimal.Decimal) string {
	s := d.StringFixed(0)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

type point struct{ x, y float64 }

type drawing struct{ strings.Builder }

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.Builder, format+"\n", args...) }

// text writes a line of text. anchor is start, middle or end, more holds further attributes.
func (d *drawing) text(x, y float64, anchor, more, s string) {
	d.printf(`<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`, x, y, anchor, more, html.EscapeString(s))
}

func (d *drawing) heading(x float64, title, under string) {
	d.text(x, 24, "start", ` font-size="14" font-weight="bold"`, title)
	d.text(x, 42, "start", ` fill="`+muted+`"`, under)
}

// level draws a line across a panel at y, with its label left of the panel.
func (d *drawing) level(left, right, y float64, label string) {
	d.printf(`<path d="M%.1f %.1fH%.1f" stroke="%s"/>`, left, y, right, ruled)
	d.text(left-8, y+4, "end", ` fill="`+muted+`"`, label)
}

// costs draws the first panel: dollars over MiB/s, both logarithmic.
func (d *drawing) costs(freshet, kafka []point) {
	x := func(rate float64) float64 {
		return leftOf1 + (rightOf1-leftOf1)*math.Log(rate/minRate)/math.Log(maxRate/minRate)
	}
	y := func(usd float64) float64 {
		return bottom - (bottom-top)*math.Log(usd/minDollar)/math.Log(maxDolar/minDollar)
	}
	d.heading(16, "Cost, USD a month", "three zones, S3 Standard, records kept for 3 days")
	for usd := float64(minDollar); usd <= maxDolar; usd *= 10 {
		d.level(leftOf1, rightOf1, y(usd), grouped(decimal.NewFromFloat(usd)))
	}
	for _, rate := range []float64{1, 4, 16, 64, 256, 1024} {
		d.printf(`<path d="M%.1f %dv5" stroke="%s"/>`, x(rate), bottom, muted)
		d.text(x(rate), bottom+19, "middle", ` fill="`+muted+`"`, fmt.Sprint(rate))
	}
	d.text((leftOf1+rightOf1)/2, bottom+40, "middle", "", "MiB/s that producers write (both axes logarithmic)")
	for _, l := range []struct {
		points       []point
		color, label string
		under        string
	}{{kafka, kafkaColor, "Apache Kafka,", "at least"}, {freshet, freshetColor, "Freshet", ""}} {
		path := make([]string, len(l.points))
		for i, p := range l.points {
			path[i] = fmt.Sprintf("%.1f %.1f", x(p.x), y(p.y))
		}
		d.printf(`<path d="M%s" fill="none" stroke="%s" stroke-width="2.5" stroke-linejoin="round"/>`, strings.Join(path, "L"), l.color)
		end := l.points[len(l.points)-1]
		d.text(x(end.x)+8, y(end.y)+4, "start", ` font-weight="bold" fill="`+l.color+`"`, l.label)
		d.text(x(end.x)+8, y(end.y)+19, "start", ` fill="`+l.color+`"`, l.under)
	}
}

// latencies draws the second panel: for each setting a bar from the median to the 99th percentile.
func (d *drawing) latencies(settings []setting) {
	y := func(ms float64) float64 { return bottom - (bottom-top)*ms/maxLatency }
	d.heading(leftOf2-44, "Time to the acknowledgement, ms", "10 MiB/s, models of stores, no saved PUTs; below: USD a month")
	for ms := 0.0; ms <= maxLatency; ms += 100 {
		d.level(leftOf2, rightOf2, y(ms), fmt.Sprint(ms))
	}
	column := float64(rightOf2-leftOf2) / float64(len(settings))
	for i, s := range settings {
		x := leftOf2 + column*(float64(i)+0.5)
		d.printf(`<path d="M%.1f %.1fV%.1f" stroke="%s" stroke-width="14" stroke-opacity="0.35"/>`, x, y(s.p50), y(s.p99), freshetColor)
		d.printf(`<path d="M%.1f %.1fh22M%.1f %.1fh22" stroke="%s" stroke-width="3"/>`, x-11, y(s.p50), x-11, y(s.p99), freshetColor)
		apart := max(0, labelHeight-(y(s.p50)-y(s.p99))) / 2 // labels of values that are close to each other
		d.text(x+16, y(s.p99)+4-apart, "start", "", fmt.Sprint(math.Round(s.p99)))
		d.text(x+16, y(s.p50)+4+apart, "start", ` font-weight="bold"`, fmt.Sprint(math.Round(s.p50)))
		d.text(x, bottom+19, "middle", "", s.name)
		d.text(x, bottom+36, "middle", ` fill="`+muted+`"`, fmt.Sprintf("%v PUTs/s", s.budget))
		d.text(x, bottom+56, "middle", ` font-weight="bold"`, "$"+s.dollars)
	}
	first := leftOf2 + column*0.5
	d.text(first-16, y(settings[0].p99)+4, "end", ` fill="`+muted+`"`, "p99")
	d.text(first-16, y(settings[0].p50)+4, "end", ` fill="`+muted+`"`, "p50")
}
