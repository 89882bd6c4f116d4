package writer

import "time"

// awaitStamps gives the batches that need one the index of their request's stamp, 0 where none came. That takes as
// long as view.AskStamp's contexts allow at most, and as a rule no time: stamps are asked for when requests come, and
// the PUT took longer.
func (b *sealed) awaitStamps() {
	var began time.Time // of the first wait
	var missed float64
	for i := range b.entries {
		e := &b.entries[i]
		if e.stamp == nil {
			continue
		}
		if began.IsZero() {
			began = time.Now()
		}
		select {
		case <-e.stamp.Done():
			e.meta.AsOf = e.stamp.Index()
		case <-b.s.ctx.Done(): // the session closed: nothing of this will be committed any more
			return
		}
		if e.unstamped() {
			missed++
		}
	}
	if !began.IsZero() {
		b.s.w.metrics.stampSeconds.Observe(time.Since(began).Seconds())
		b.s.w.metrics.waits.WithLabelValues(waitStamps).Add(missed)
	}
}

// missed tells whether the batch needs a stamp and will get none: a request that waited so long is not put for nothing.
func (w *Writer) missed(b *Batch) bool {
	if b.Stamp == nil || !b.Stamp.Missed() {
		return false
	}
	w.metrics.waits.WithLabelValues(waitStamps).Inc()
	return true
}

// unstamped tells whether the batch needed a stamp and got none, so that its refusal says nothing of its transaction.
func (e *entry) unstamped() bool { return e.stamp != nil && e.meta.AsOf == 0 }
