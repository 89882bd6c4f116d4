package classic

import "sync/atomic"

// Budget bounds the bytes of the members of all groups of a coordinator, classic ones and those of the consumer protocol. MaxBytes bounds the members
// of one group. The first smallMember bytes of each member do not count. A nil *Budget has no bound.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget with a limit in bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Used returns the bytes of all members that count.
func (b *Budget) Used() int64 { return b.used.Load() }

// HasRoom reports whether a number of charged bytes more is within the bound. A number below zero always is.
func (b *Budget) HasRoom(bytes int) bool {
	return b == nil || bytes <= 0 || b.used.Load()+int64(bytes) <= b.limit
}

// Replace counts after bytes of a member in place of before. 0 is no member.
func (b *Budget) Replace(before, after int) { b.add(Charge(after) - Charge(before)) }

// Charge returns the bytes of a member that count in a Budget.
func Charge(bytes int) int { return max(0, bytes-smallMember) }

func (b *Budget) add(bytes int) {
	if b != nil {
		b.used.Add(int64(bytes))
	}
}
