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

// maxRun bounds the commands that are offered to the owner at a time; it takes what its own bound allows.
const maxRun = 256

// drain hands over what waits as there is room for it, in runs, until nothing does or the tenure is over. All groups have
// one place among those who wait for room: a single command each time would make a thousand groups wait a thousand times.
func (c *Coordinator) drain(ctx context.Context) {
	for {
		cmds := c.firstWaiting()
		if len(cmds) == 0 {
			return
		}
		proposals, err := c.owner.EnqueueRun(ctx, cmds)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.takeWaiting(1)[0].done(metadata.Result{}, err)
			continue
		}
		for i, first := range c.takeWaiting(len(proposals)) {
			c.completed.add(completion{proposals[i], first.done})
		}
	}
}

// firstWaiting gives the commands that have waited longest, at most maxRun; none ends the draining.
func (c *Coordinator) firstWaiting() []metadata.Command {
	c.overflow.Lock()
	defer c.overflow.Unlock()
	if len(c.overflow.waiting) == 0 {
		c.overflow.waiting, c.overflow.draining = nil, false
		return nil
	}
	cmds := make([]metadata.Command, min(maxRun, len(c.overflow.waiting)))
	for i := range cmds {
		cmds[i] = c.overflow.waiting[i].cmd
	}
	return cmds
}

// takeWaiting takes the first n out.
func (c *Coordinator) takeWaiting(n int) []overflowed {
	c.overflow.Lock()
	defer c.overflow.Unlock()
	taken := c.overflow.waiting[:n]
	c.overflow.waiting = c.overflow.waiting[n:]
	return taken
}
