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
