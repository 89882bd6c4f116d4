package group

import (
	"context"
	"errors"
	"sync"

	"github.com/freshet-io/freshet/metadata"
)

// overflow are the commands that found the owner's queue full, and those that came after them, in their order: a commit
// must not come before one that its member gave up waiting for. A group has one write in it at most, and the commits of
// offsets are bounded by the requests that are taken in.
type overflow struct {
	sync.Mutex
	waiting  []overflowed
	draining bool // a goroutine waits for room for the first
}

type overflowed struct {
	cmd  metadata.Command
	done func(metadata.Result, error)
}

// enqueue hands a command to the log without waiting; done is called with its outcome unless the tenure ends first.
func (c *Coordinator) enqueue(cmd metadata.Command, done func(metadata.Result, error)) error {
	c.overflow.Lock()
	defer c.overflow.Unlock()
	if !c.overflow.draining {
		p, err := c.owner.Enqueue(c.enqueueing, cmd)
		switch {
		case err == nil:
			c.completed.add(completion{p, done})
			return nil
		case !errors.Is(err, context.Canceled), !c.spawn(c.drain):
			return err
		}
		c.overflow.draining = true
	}
	c.overflow.waiting = append(c.overflow.waiting, overflowed{cmd, done})
	return nil
}

// drain hands over what waits as there is room for it, until nothing does or the tenure is over.
func (c *Coordinator) drain(ctx context.Context) {
	for {
		first, ok := c.firstWaiting()
		if !ok {
			return
		}
		p, err := c.owner.Enqueue(ctx, first.cmd)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			first.done(metadata.Result{}, err)
		default:
			c.completed.add(completion{p, first.done})
		}
	}
}

// firstWaiting takes the first command out; false ends the draining.
func (c *Coordinator) firstWaiting() (overflowed, bool) {
	c.overflow.Lock()
	defer c.overflow.Unlock()
	if len(c.overflow.waiting) == 0 {
		c.overflow.waiting, c.overflow.draining = nil, false
		return overflowed{}, false
	}
	first := c.overflow.waiting[0]
	c.overflow.waiting = c.overflow.waiting[1:]
	return first, true
}
