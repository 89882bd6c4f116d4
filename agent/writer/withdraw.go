package writer

import "time"

// leaseOf gives the lease that the batches of one Add share; nil without one.
func leaseOf(batches []Batch) Lease {
	if len(batches) == 0 {
		return nil
	}
	return batches[0].Lease
}

// leaveOut takes those batches out of the groups that may not be committed any more: they were handed over by an agent
// that has given them up. Their bytes are in the object like those of batches that the sequencer refuses. What came before
// such a batch in its partition and what came after it become two groups, since they are not adjacent. until is when the
// first lease of those that are left ends; the zero time if none has any.
func (b *sealed) leaveOut() (until time.Time) {
	var kept []group // nil: nothing is left out so far
	for k, g := range b.groups {
		parts, whole := b.split(g, &until)
		switch {
		case whole && kept == nil:
			continue
		case whole:
			parts = append(parts, g)
		case kept == nil:
			kept = append(make([]group, 0, len(b.groups)+len(parts)), b.groups[:k]...)
		}
		kept = append(kept, parts...)
	}
	if kept != nil {
		b.groups = kept
	}
	return until
}

// split gives the stretches of a group that are to be committed; whole if that is all of it. It lowers until to the end of
// their leases.
func (b *sealed) split(g group, until *time.Time) (parts []group, whole bool) {
	part, open := group{partition: g.partition}, false
	whole = true
	for i := g.first; i >= 0; {
		e := &b.entries[i]
		next := e.next
		in, lease := e.owner.handIn(e.index)
		if in && !lease.IsZero() && (until.IsZero() || lease.Before(*until)) {
			*until = lease
		}
		switch {
		case in && !open:
			part.first, part.last, open = i, i, true
		case in:
			part.last = i
		default:
			whole = false
			b.s.w.metrics.withdrawn.Inc()
			if open {
				b.entries[part.last].next = -1
				parts, open = append(parts, part), false
			}
		}
		i = next
	}
	if whole {
		return nil, true
	}
	if open {
		parts = append(parts, part)
	}
	return parts, false
}
