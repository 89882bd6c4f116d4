package writer

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/objstore"
)

const (
	// outageIdle is the time without a refused bundle after which an outage no longer counts: nothing was tried since.
	outageIdle = 10 * time.Second
)

// outage is a time in which the object store refuses every bundle, because it is full, read-only or closed to this agent. Each
// such bundle is abandoned at once. An outage begins with the first abandoned bundle and ends with the next stored one.
// The log names its begin, each change of its cause, and its end, however many bundles are abandoned in between.
type outage struct {
	log   *zap.Logger
	lasts atomic.Bool // a bundle was abandoned since the last one was stored

	mu struct {
		sync.Mutex
		since, last time.Time // of the first and the newest abandoned bundle
		bundles     int       // abandoned
		named       string    // the cause that the log named last; "" if none
		namedAt     time.Time // the begin is logged once in troubleEvery
	}
}

// causes are what the log calls the errors that a bundle is abandoned for; the first that matches counts.
var causes = []struct {
	err  error
	name string
}{
	{objstore.ErrFull, "full"},
	{objstore.ErrReadOnly, "read_only"},
	{objstore.ErrNoCredentials, "no_credentials"},
	{objstore.ErrNoBucket, "no_bucket"},
	{objstore.ErrRefused, "refused"},
	{objstore.ErrOutcomeUnknown, "no_answer"},
}

func causeOf(err error) string {
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return "failed"
}

// abandoned notes a bundle that could not be stored.
func (o *outage) abandoned(bundle zap.Field, err error) {
	now, cause := time.Now(), causeOf(err)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.lasts.Swap(true) {
		o.mu.since, o.mu.bundles, o.mu.named = now, 0, ""
	}
	o.mu.last = now
	o.mu.bundles++
	if o.mu.named == cause || !o.mu.namedAt.IsZero() && now.Sub(o.mu.namedAt) < troubleEvery {
		return
	}
	o.mu.named, o.mu.namedAt = cause, now
	o.log.Error("object store refuses a bundle; producers are told to try again until it takes one", zap.String("cause", cause),
		bundle, zap.Error(err))
}

// stored notes a bundle that was stored.
func (o *outage) stored() {
	if !o.lasts.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.lasts.Swap(false) || o.mu.named == "" {
		return
	}
	o.log.Warn("object store takes bundles again", zap.Duration("after", time.Since(o.mu.since)),
		zap.Int("bundles_abandoned", o.mu.bundles))
}

// stuck reports whether bundles have been refused for so long that others should not hand their batches to this writer.
func (o *outage) stuck(now time.Time) bool {
	if !o.lasts.Load() {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return now.Sub(o.mu.since) >= stuckAfter && now.Sub(o.mu.last) < outageIdle
}
