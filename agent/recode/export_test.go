package recode

import "golang.org/x/sync/semaphore"

// LargeTurn is the process's.
var LargeTurn = largeTurn

// Turns are the Recoder's own.
func (c *Recoder) Turns() *semaphore.Weighted { return c.turns }

// Held tells whether any Hold has memory.
func (c *Recoder) Held() bool {
	free := c.held.TryAcquire(c.cfg.HoldBytes)
	if free {
		c.held.Release(c.cfg.HoldBytes)
	}
	return !free
}
