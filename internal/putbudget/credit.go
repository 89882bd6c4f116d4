package putbudget

// Credit is the part of the zone's savings that a writer may spend. Spent and limit are totals of the session. The zero
// value is no credit.
type Credit struct {
	spent, limit uint64
}

// Grant sets the total that the writer may spend. The last grant holds; 0 ends all credit.
func (c *Credit) Grant(limit uint64) { c.limit = limit }

// Left reports whether the writer may spend.
func (c *Credit) Left() bool { return c.spent < c.limit }

// Spend takes one PUT of the credit. It must be preceded by Left.
func (c *Credit) Spend() { c.spent++ }

// Spent returns the PUTs made by credit so far.
func (c *Credit) Spent() uint64 { return c.spent }
