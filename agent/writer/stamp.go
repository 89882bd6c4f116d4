package writer

// awaitStamps gives the batches that need one the index of their request's stamp, 0 where none came. That takes as
// long as view.AskStamp's contexts allow at most, and as a rule no time: stamps are asked for when requests come, and
// the PUT took longer.
func (b *sealed) awaitStamps() {
	for i := range b.entries {
		e := &b.entries[i]
		if e.stamp == nil {
			continue
		}
		select {
		case <-e.stamp.Done():
			e.meta.AsOf = e.stamp.Index()
		case <-b.s.ctx.Done(): // the session closed: nothing of this will be committed any more
			return
		}
	}
}

// unstamped tells whether the batch needed a stamp and got none, so that its refusal says nothing of its transaction.
func (e *entry) unstamped() bool { return e.stamp != nil && e.meta.AsOf == 0 }
