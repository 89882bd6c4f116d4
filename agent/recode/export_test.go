package recode

// LargeTurn is the process's.
var LargeTurn = largeTurn

// Held reports whether any batch counts as held.
func (c *Recoder) Held() bool {
	free := c.held.TryAcquire(c.cfg.HoldBytes)
	if free {
		c.held.Release(c.cfg.HoldBytes)
	}
	return !free
}

// HasTurns reports whether n more batches may be opened now.
func (c *Recoder) HasTurns(n int) bool {
	free := c.turns.TryAcquire(int64(n))
	if free {
		c.turns.Release(int64(n))
	}
	return free
}
