package tco

import (
	"errors"
	"fmt"
	"math"

	"github.com/shopspring/decimal"

	"github.com/freshet-io/freshet/bench/tco/catalog"
)

const (
	// commitBytes is what one batch takes in a submission, and again in a notice to the agent that serves its partition
	// in another zone: an assumption, on the large side.
	commitBytes = 48
	// logBytes is what one batch takes in the metadata log (ARCHITECTURE.md).
	logBytes = 10
	// graceSeconds is how long a bundle stays after the last need for it.
	graceSeconds = 15 * 60
	// bucketKeyShare is the share of requests for which a bucket key asks KMS: Amazon says up to 99 % fewer.
	bucketKeyShare = "0.01"
)

// monthSeconds is 730 hours, a twelfth of a year.
var monthSeconds = num("2628000", "s")

// biller writes Freshet's bill for one workload.
type biller struct {
	book
	t Table
	w *Workload
	s *sizer
	r rates

	wire, puts, gets, compactPuts, compactGets Expr // a second, as shown
	money                                      []Line
}

// Bill is Freshet's bill for w, which must be valid.
func Bill(id string, w Workload, prices *catalog.Prices) (Table, error) {
	set, err := prices.Set(catalog.Own)
	if err != nil {
		return Table{}, err
	}
	s, cpu, err := chooseMachines(&w, set)
	if err != nil {
		return Table{}, fmt.Errorf("size %s: %w", w.Name, err)
	}
	b := &biller{book: book{prices: prices}, w: &w, s: s}
	if b.r, err = b.s.rates(w.phases()); err != nil {
		return Table{}, fmt.Errorf("size %s: %w", w.Name, err)
	}
	b.t = Table{
		ID: id, Prices: b.use(catalog.Own),
		Title: fmt.Sprintf("Freshet, %s: %s, %s, %d zones, retention %s; a month of 730 hours", w.Name, w.Store, s.instance.Name, w.Zones, hours(w.Retention.Hours())),
	}
	b.quantities()
	if err := b.computers(); err != nil {
		return Table{}, fmt.Errorf("size %s: %w", w.Name, err)
	}
	b.requests()
	b.transfer()
	b.storage()
	b.totals()
	b.t.Notes = b.notes(cpu)
	return b.t, errors.Join(b.faults...)
}

// phases are the workload's, or a day at its throughput.
func (w *Workload) phases() []Phase {
	if len(w.Phases) > 0 {
		return w.Phases
	}
	rate := float64(w.Throughput)
	return []Phase{{Hours: 24, Mean: rate, Peak: rate}}
}

// meanThroughput is bytes a second before compression, over the day.
func (w *Workload) meanThroughput() float64 {
	var bytes, hours float64
	for _, p := range w.phases() {
		bytes += p.Mean * p.Hours
		hours += p.Hours
	}
	return bytes / hours
}

// pay adds a line of money.
func (b *biller) pay(name string, e Expr) *Line {
	l := b.t.own(name, USDMonth, 2, e)
	b.money = append(b.money, *l)
	return l
}

// quantity adds a line that is computed with as it is shown.
func (b *biller) quantity(name, unit string, places int32, e Expr) (Expr, *Line) {
	l := b.t.own(name, unit, places, e)
	return dec(l.Shown(), unit), l
}

func (b *biller) quantities() {
	w := b.w
	written := b.written()
	ratio := decimal.NewFromFloat(w.CompressionRatio).Round(6)
	b.wire, _ = b.quantity("on the wire", "MiB/s", placesOf(b.r.wire/mib), written.over(dec(ratio, "")))
	b.puts, _ = b.quantity("bundles", "PUT/s", 2, b.bundles())
	b.gets, _ = b.quantity("live reads", "GET/s", 2, b.liveReads())
	rewritten := b.wire.times(several(max(w.Rewrites, 0), "time"))
	var l *Line
	b.compactPuts, l = b.quantity("compaction, written", "PUT/s", 2,
		rewritten.over(mebibytes(w.ObjectBytes)).times(rounded(b.s.partsOfObject(), 0, "PUT/object")))
	l.Note = fmt.Sprintf("parts of multipart uploads, %.0f MiB each, and what begins and ends them are charged as PUTs", b.s.partBytes()/mib)
	b.compactGets, _ = b.quantity("compaction, read", "GET/s", 2, b.compactionReads())
}

// written is what producers write, before compression.
func (b *biller) written() Expr {
	rate := b.w.meanThroughput() / mib
	return rounded(rate, placesOf(rate), "MiB/s")
}

// bundles is how many bundles are written a second.
func (b *biller) bundles() Expr {
	w := b.w
	if len(w.phases()) > 1 {
		e := rounded(b.r.puts, 2, "PUT/s")
		e.text = fmt.Sprintf("mean over the day of %d zones x max(%v/s, writers / %v, bytes/s / %s)", w.Zones, w.PutBudget, w.FlushInterval, mebibytes(w.BundleBytes).text)
		return e
	}
	n, _, err := b.s.agents(b.r.wire)
	if err != nil { // rates has found it for this very rate
		b.faults = append(b.faults, err)
	}
	zones := several(w.Zones, "zone")
	full := b.wire.over(zones).over(mebibytes(w.BundleBytes))
	timed := several(int(b.s.writers(b.r.wire, n)), "writer").over(rounded(w.FlushInterval.Seconds(), 3, "s"))
	return zones.times(most(rounded(w.PutBudget, 2, "/s"), timed, full))
}

// liveReads is how many bundles are read a second as soon as they are there.
func (b *biller) liveReads() Expr {
	w := b.w
	switch {
	case w.Fanout <= 0:
		return num("0", "readers")
	case w.Sharing == ShareAgent && len(w.phases()) > 1:
		e := rounded(b.r.gets, 2, "GET/s")
		e.text = "mean over the day of PUT/s x all agents but the writer"
		return e
	case w.Sharing == ShareAgent:
		return b.puts.times(rounded(b.r.gets/b.r.puts, 0, "other agents"))
	default:
		return b.puts.times(several(w.Zones-1, "other zone"), rounded(unitsOf(w.BundleBytes), 0, "GET/bundle"))
	}
}

// compactionReads are a GET of each bundle for the first rewrite, and GETs of the level before for each further one.
func (b *biller) compactionReads() Expr {
	w := b.w
	if w.Rewrites <= 0 {
		return num("0", "times")
	}
	again := b.wire.times(several(w.Rewrites-1, "time")).over(mebibytes(w.ObjectBytes)).times(count(rangesOfObject, "GET/object"))
	return b.puts.times(count(1, "GET/bundle")).plus(again)
}

// rereads is MiB a second that compaction takes out of the store.
func (b *biller) rereads() Expr {
	return b.wire.times(rounded(float64(max(b.w.Rewrites, 0)), 2, "reads"))
}

func mebibytes(bytes int64) Expr { return rounded(float64(bytes)/mib, 4, "MiB") }

func hours(h float64) string {
	if days := h / 24; h > 0 && days == math.Trunc(days) {
		return fmt.Sprintf("%v d", days)
	}
	return fmt.Sprintf("%v h", h)
}
