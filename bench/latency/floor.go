package latency

import (
	"slices"
	"time"
)

// moments is how many records stand for all that one bundle holds.
const moments = 64

// floor is the latency that the PUTs themselves leave to records of a load: they come at any time between the beginnings of
// two PUTs, go with the second, and are durable when that has ended. They are acknowledged when the bursts before them of the
// same producer are too that went to the same port, each burstEvery before the next and for the partition before: answers of a
// connection keep the order of its requests. Other bundles
// before theirs are not waited for: no two of them have batches of one producer in one partition within a second
// (agent/writer). What records took beyond the floor is Freshet's, the clients' and the machine's. leaders are the ports by partition.
func (p *puts) floor(leaders []int32) Quantiles {
	var whole []stored // in order
	var longest time.Duration
	for _, s := range p.bundles {
		if !s.began.IsZero() && !s.ended.IsZero() {
			whole = append(whole, s)
			longest = max(longest, s.ended.Sub(s.began))
		}
	}
	slices.SortFunc(whole, func(a, b stored) int { return a.began.Compare(b.began) })
	var all weighted
	for i, s := range whole[min(1, len(whole)):] {
		gap := s.began.Sub(whole[i].began)
		for m := range moments {
			came := s.began.Add(-gap * time.Duration(2*m+1) / (2 * moments))
			all = append(all, moment{acknowledged(whole[:i+2], came, longest, leaders, m).Sub(came), gap})
		}
	}
	return Quantiles{all.quantile(0.5), all.quantile(0.99)}
}

// acknowledged tells when records of a partition are that came at a time, and go with the last of the bundles, none of which
// took longer than longest. Partitions are counted round the leaders.
func acknowledged(bundles []stored, came time.Time, longest time.Duration, leaders []int32, partition int) time.Time {
	last := bundles[len(bundles)-1].ended
	n := len(leaders)
	for k := 1; ; k++ {
		if leaders[((partition-k)%n+n)%n] != leaders[partition%n] {
			continue
		}
		burst := came.Add(-time.Duration(k) * burstEvery)
		i, _ := slices.BinarySearchFunc(bundles, burst, func(s stored, t time.Time) int { return s.began.Compare(t) })
		if i == 0 || bundles[i].began.Add(longest).Before(last) {
			return last // those before are not known, or were acknowledged long ago
		}
		if bundles[i].ended.After(last) {
			last = bundles[i].ended
		}
	}
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
