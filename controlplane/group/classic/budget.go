package classic

import "sync/atomic"

// Budget bounds the bytes of the members of all groups that share it, as MaxBytes bounds those of one. The first smallMember bytes of each member
// do not count. The nil Budget has no bound.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget of so many bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Used returns the bytes of all members.
func (b *Budget) Used() int64 { return b.used.Load() }

// hasRoom reports whether so many bytes more are within the bound. A number below zero always is.
func (b *Budget) hasRoom(bytes int) bool {
	return b == nil || bytes <= 0 || b.used.Load()+int64(bytes) <= b.limit
}

// Fits reports whether a member may grow from a number of bytes to another one. It may always shrink.
func (b *Budget) Fits(before, after int) bool { return b.hasRoom(charge(after) - charge(before)) }

// Replace counts a member of a number of bytes in place of one of another number. 0 is no member.
func (b *Budget) Replace(before, after int) { b.add(charge(after) - charge(before)) }

// charge returns the bytes of a member that count in a Budget.
func charge(bytes int) int { return max(0, bytes-smallMember) }

func (b *Budget) add(bytes int) {
	if b != nil {
		b.used.Add(int64(bytes))
	}
}
