package writer

import "time"

// Latency is how long a batch waits for company before it is stored: what its topic asks for (freshet.latency). A bundle
// is as urgent as the most urgent of its batches.
type Latency uint8

const (
	// Standard batches wait for a token of the PUT budget, at most FlushInterval.
	Standard Latency = iota
	// Fast batches wait for the linger alone, as long as the budget for them lasts (FastPutRate); then as Standard.
	Fast

	latencies
)

// Known tells whether there is such a latency.
func (l Latency) Known() bool { return l < latencies }

// ages are when the first batch of each latency came to a bundle; zero if none did.
type ages [latencies]time.Time

func (a *ages) note(l Latency, now time.Time) {
	if a[l].IsZero() {
		a[l] = now
	}
}

// first returns when the bundle's first batch came.
func (a *ages) first() (at time.Time) {
	for _, since := range a {
		if at.IsZero() || !since.IsZero() && since.Before(at) {
			at = since
		}
	}
	return at
}

// due is the time until a bundle is to be sealed, and why.
type due struct {
	wait time.Duration
	why  reason
}

// sooner keeps the earlier of two; of those that are due already the one that costs less comes first.
func (d *due) sooner(than due) {
	if than.wait < d.wait && d.wait > 0 {
		*d = than
	}
}

// dueIn returns when the bundle is to be sealed by time: once the linger is over and a PUT token is free, at the latest
// after the flush interval. freshet.latency changes the tokens and the interval. Called with mu held, after refill.
func (s *session) dueIn(g *gathering, now time.Time, rate, fastRate float64) due {
	cfg := &s.w.cfg
	d := due{wait: forever}
	left := func(since time.Time, limit time.Duration) time.Duration { return max(limit-now.Sub(since), 0) }
	if since := g.since[Fast]; !since.IsZero() {
		d.sooner(due{max(left(since, cfg.Linger), s.mu.budget.Wait(rate)), sealLinger})
		d.sooner(due{max(left(since, cfg.Linger), s.mu.fast.Wait(fastRate)), sealFast})
		d.sooner(due{left(since, cfg.FlushInterval), sealInterval})
	}
	if since := g.since[Standard]; !since.IsZero() {
		d.sooner(due{max(left(since, cfg.Linger), s.mu.budget.Wait(rate)), sealLinger})
		d.sooner(due{left(since, cfg.FlushInterval), sealInterval})
	}
	if s.mu.credit.Left() {
		d.sooner(due{s.savingsDue(g, now), sealSavings})
	}
	return d
}
