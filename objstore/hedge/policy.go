package hedge

import (
	"errors"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/freshet-io/freshet/objstore"
)

// Size classes have durations of their own: up to 256 KiB, up to 2 MiB, more (or unknown).
const numClasses = 3

func classOf(size int64) int {
	switch {
	case size >= 0 && size <= 256<<10:
		return 0
	case size >= 0 && size <= 2<<20:
		return 1
	default:
		return 2
	}
}

// Durations are kept in microseconds up to ten minutes, to two digits.
const (
	maxMicros    = int64(10 * time.Minute / time.Microsecond)
	digits       = 2
	subWindows   = 5 // the window moves on in steps of a fifth
	refreshEvery = time.Second
)

// policy decides when the requests of one operation are hedged.
type policy struct {
	config Config

	mu struct {
		sync.Mutex
		classes        [numClasses]observed
		tokens         float64 // hedges saved up
		throttledUntil time.Time
	}
}

// observed are the recent durations of one size class.
type observed struct {
	window    *hdrhistogram.WindowedHistogram
	rotated   time.Time // when the present sub-window began
	delay     time.Duration
	refreshed time.Time // when delay was computed; zero: must be
}

// newPolicy begins with one hedge saved up, so that the very first request of a process is not at a stuck
// connection's mercy.
func newPolicy(config Config) *policy {
	p := &policy{config: config}
	if config.MaxShare > 0 {
		p.mu.tokens = 1
	}
	return p
}

// timer gives a timer that fires when a request that begins now should be hedged. It also counts the request, which
// earns its share of a hedge.
func (p *policy) timer(class int) *time.Timer {
	p.mu.Lock()
	p.mu.tokens = min(p.mu.tokens+p.config.MaxShare, float64(p.config.Burst))
	delay := p.mu.classes[class].hedgeDelay(time.Now(), &p.config)
	p.mu.Unlock()
	return time.NewTimer(delay)
}

// take asks for one hedge; if there is none, reason says why.
func (p *policy) take() (reason string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().Before(p.mu.throttledUntil) {
		return reasonThrottled, false
	}
	// A little less than one makes up for adding up fractions.
	if p.mu.tokens < 1-1e-9 {
		return reasonShare, false
	}
	p.mu.tokens--
	return "", true
}

// observe adds a request's duration; that of one that was cut short counts as the time it had taken so far.
func (p *policy) observe(class int, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.classes[class].add(time.Now(), took, p.config.Window/subWindows)
}

// throttlePause is how long after ErrThrottled nothing is hedged.
const throttlePause = 10 * time.Second

func (p *policy) noteError(err error) {
	if !errors.Is(err, objstore.ErrThrottled) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.throttledUntil = time.Now().Add(throttlePause)
}

func (o *observed) add(now time.Time, took, subWindow time.Duration) {
	if o.window == nil {
		o.window = hdrhistogram.NewWindowed(subWindows, 1, maxMicros, digits)
		o.rotated = now
	}
	o.rotate(now, subWindow)
	micros := min(max(took.Microseconds(), 1), maxMicros)
	_ = o.window.Current.RecordValue(micros) // within the histogram's range
}

// rotate drops what is older than the window.
func (o *observed) rotate(now time.Time, subWindow time.Duration) {
	for range subWindows {
		if now.Sub(o.rotated) < subWindow {
			return
		}
		o.window.Rotate()
		o.rotated = o.rotated.Add(subWindow)
		o.refreshed = time.Time{}
	}
	o.rotated = now // everything was too old
}

// hedgeDelay is the quantile of what was observed; while too little was, the fixed ColdDelay.
func (o *observed) hedgeDelay(now time.Time, c *Config) time.Duration {
	if o.window == nil {
		return c.ColdDelay
	}
	o.rotate(now, c.Window/subWindows)
	if o.refreshed.IsZero() || now.Sub(o.refreshed) >= refreshEvery {
		o.refreshed = now
		o.delay = c.ColdDelay
		if all := o.window.Merge(); all.TotalCount() >= int64(c.MinSamples) {
			micros := all.ValueAtQuantile(c.Quantile * 100)
			o.delay = max(time.Duration(micros)*time.Microsecond, c.MinDelay)
		}
	}
	return o.delay
}
