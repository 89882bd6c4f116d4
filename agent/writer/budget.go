package writer

import "time"

// leastShare is the least part of the zone's PUT budget that a writer goes by.
const leastShare = 1e-4

// fastBurst is the time in which the PUTs that fast batches did not use are saved.
const fastBurst = 250 * time.Millisecond

// putBudget is this agent's share of the zone's PUT budget: a token bucket. Seals that cannot wait (by size, by
// interval) charge it into debt, so that the bill keeps its bound on average; the debt ends at one burst, so that a
// time of heavy load does not delay what comes after it for longer than that.
type putBudget struct {
	tokens float64
	at     time.Time // when tokens was right
}

// refill brings the bucket up to now. A new bucket is full.
func (b *putBudget) refill(now time.Time, rate, burst float64) {
	if b.at.IsZero() {
		b.tokens = burst
	} else {
		b.tokens += now.Sub(b.at).Seconds() * rate
	}
	b.tokens = min(max(b.tokens, -burst), burst)
	b.at = now
}

// epsilon forgives what is lost in rounding a wait to nanoseconds.
const epsilon = 1e-6

// free tells whether a whole token is there.
func (b *putBudget) free() bool { return b.tokens >= 1-epsilon }

// charge takes a token, there or not.
func (b *putBudget) charge() { b.tokens-- }

// wait is the time from the last refill until a token is there.
func (b *putBudget) wait(rate float64) time.Duration {
	if b.free() {
		return 0
	}
	return time.Duration((1-b.tokens)/rate*float64(time.Second)) + 1
}
