package latency

import (
	"slices"
	"time"
)

// moments is how many records stand for all that one bundle holds.
const moments = 64

// floor is the latency that the PUTs themselves leave to records of a load: they come at any time between the beginnings of
// two PUTs, go with the second, and are durable when that has ended. A bundle waits for slower PUTs before it only where both
// have batches of one producer in one partition (agent/writer): here each goes to another partition with every burst, so hardly
// any does. What records took beyond the floor is Freshet's, the clients' and the machine's.
func (p *puts) floor() Quantiles {
	var whole []stored // in order
	for _, s := range p.bundles {
		if !s.began.IsZero() && !s.ended.IsZero() {
			whole = append(whole, s)
		}
	}
	slices.SortFunc(whole, func(a, b stored) int { return a.began.Compare(b.began) })
	var all weighted
	for i, s := range whole[min(1, len(whole)):] {
		gap := s.began.Sub(whole[i].began)
		for m := range time.Duration(moments) {
			waited := gap * (2*m + 1) / (2 * moments)
			all = append(all, moment{s.ended.Sub(s.began) + waited, gap})
		}
	}
	return Quantiles{all.quantile(0.5), all.quantile(0.99)}
}

// moment is a record's latency, and the time in which such records came.
type moment struct{ latency, weight time.Duration }

type weighted []moment

// quantile sorts.
func (w weighted) quantile(q float64) time.Duration {
	slices.SortFunc(w, func(a, b moment) int { return int(a.latency - b.latency) })
	var total, sum time.Duration
	for _, m := range w {
		total += m.weight
	}
	for _, m := range w {
		if sum += m.weight; float64(sum) >= q*float64(total) {
			return m.latency
		}
	}
	return 0
}
