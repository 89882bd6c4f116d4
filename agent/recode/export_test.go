package recode

import "golang.org/x/sync/semaphore"

// LargeTurn is the process's.
var LargeTurn = largeTurn

// Turns are the Recoder's own.
func (c *Recoder) Turns() *semaphore.Weighted { return c.turns }
