package session

import "time"

const (
	// calmAfter is how long an agent is not hidden before its earlier hidings are forgotten.
	calmAfter = 10 * time.Minute
	// firstStay is how long an agent that was hidden twice of late must stay connected before it is shown again. It doubles
	// with each further hiding, up to longestStay.
	firstStay   = 5 * time.Second
	longestStay = 2 * time.Minute
)

// flapping is how often an agent was hidden of late. Each hiding and showing again moves partitions and all clients that
// use them, so an agent that comes and goes is let in again the later the more often it did. One that was hidden once is
// shown again at once: a broken network heals. It is what this owner has seen; the next one begins anew.
type flapping struct {
	times int
	last  time.Time
}

// hid notes that the agent was hidden.
func (f *flapping) hid(now time.Time) {
	if now.Sub(f.last) >= calmAfter {
		f.times = 0
	}
	f.times, f.last = f.times+1, now
}

// stay is how long the agent must be connected without a break before it is shown again.
func (f *flapping) stay() time.Duration {
	if f.times < 2 {
		return 0
	}
	return min(firstStay<<min(f.times-2, 16), longestStay)
}
