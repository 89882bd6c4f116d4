package putbudget

import "time"

// Bucket is a token bucket of one writer. Seals that cannot wait (by size, by interval) charge it into debt, so that the
// budget holds on average. The debt ends at one burst, so heavy load delays later batches for at most that time. The zero
// value is a full bucket.
type Bucket struct {
	tokens float64
	at     time.Time // when tokens was right
	unused float64   // tokens that overflowed
}

// Refill brings the bucket up to now.
func (b *Bucket) Refill(now time.Time, rate, burst float64) {
	if b.at.IsZero() {
		b.tokens = burst
	} else {
		b.tokens += now.Sub(b.at).Seconds() * rate
	}
	b.unused += max(b.tokens-burst, 0)
	b.tokens = min(max(b.tokens, -burst), burst)
	b.at = now
}

// epsilon is the part of a token that rounding a wait to nanoseconds may lose.
const epsilon = 1e-6

// Free reports whether a whole token is there.
func (b *Bucket) Free() bool { return b.tokens >= 1-epsilon }

// Charge takes a token, there or not.
func (b *Bucket) Charge() { b.tokens-- }

// Unused returns the tokens that overflowed since the bucket was made. It never falls.
func (b *Bucket) Unused() float64 { return b.unused }

// Wait returns the time from the last refill until a token is there.
func (b *Bucket) Wait(rate float64) time.Duration {
	if b.Free() {
		return 0
	}
	return time.Duration((1-b.tokens)/rate*float64(time.Second)) + 1
}
