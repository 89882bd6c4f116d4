package cache

import (
	"context"
	"fmt"
	"io"
)

// flightKey names a flight. Direct ones read the object store, others ask the zone's agents first.
type flightKey struct {
	unitKey
	direct bool
}

// flight is one reading of a unit that its readers wait for together. It goes on when they leave, for who comes next.
type flight struct {
	key    flightKey
	class  Class
	reader uint64 // on whose account
	run    *run   // the GET that it is part of; nil: none
	done   chan struct{}
	unit   *unit // one reference for each waiter
	err    error

	waiters int // guarded by the cache's lock
}

// account is on whose account units are read: readers of a class share its bounds evenly. Reader 0 are all those that
// have no number.
type account struct {
	class  Class
	reader uint64
}

// join waits with others for units of one bundle, or begins to read them. Each flight is to be waited for once. direct
// says that the zone's agents are of no use.
func (c *Cache) join(keys []unitKey, to account, direct bool) []*flight {
	return c.takeOff(keys, to, direct, 1)
}

// launch begins to read units of one bundle that nobody reads yet: by one GET where they adjoin.
func (c *Cache) launch(keys []unitKey, to account) { c.takeOff(keys, to, false, 0) }

func (c *Cache) takeOff(keys []unitKey, to account, direct bool, waiters int) []*flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	flights := make([]*flight, len(keys))
	var begun []*flight
	for i, key := range keys {
		f := c.underWay(key, direct)
		if f == nil {
			f = &flight{
				key: flightKey{key, direct}, class: to.class, reader: to.reader, done: make(chan struct{}),
			}
			if c.mu.closed {
				f.err = ErrClosed
				close(f.done)
			} else {
				c.mu.flights[f.key] = f
				begun = append(begun, f)
			}
		}
		f.waiters += waiters
		if f.run != nil && waiters > 0 {
			f.run.poke()
		}
		flights[i] = f
	}
	c.depart(begun, direct)
	return flights
}

// underWay finds a flight that serves who wants a unit. The lock is held.
func (c *Cache) underWay(key unitKey, direct bool) *flight {
	if f := c.mu.flights[flightKey{key, true}]; f != nil || direct {
		return f
	}
	return c.mu.flights[flightKey{key, false}]
}

// depart starts flights of one bundle. The lock is held.
func (c *Cache) depart(flights []*flight, direct bool) {
	if c.cfg.Zone != nil && !direct && len(flights) > 0 {
		c.loads.Go(func() { c.flyByZone(flights) })
		return
	}
	for len(flights) > 0 {
		n := 1
		for n < len(flights) && flights[n].key.follows(flights[n-1].key.unitKey) {
			n++
		}
		r := newRun(c, flights[:n:n])
		c.loads.Go(r.fly)
		flights = flights[n:]
	}
}

// land ends a flight. The one reference of u is land's now; kept says that the cache has it already.
func (c *Cache) land(f *flight, u *unit, kept bool, err error) {
	if err == nil && !kept {
		u.retain() // the cache's
		c.store.put(u, f.class, !c.wanted([]*flight{f}))
	}
	c.mu.Lock()
	delete(c.mu.flights, f.key)
	f.unit, f.err = u, err
	if u != nil {
		u.refs.Add(int32(f.waiters))
	}
	c.mu.Unlock()
	if u != nil {
		u.release()
	}
	close(f.done)
}

// wait gives the unit, pinned for the caller.
func (f *flight) wait(ctx context.Context, c *Cache) (*unit, error) {
	select {
	case <-f.done:
		return f.unit, f.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	f.waiters--
	u := f.unit
	c.mu.Unlock()
	if u != nil { // it ended meanwhile, with a reference for this waiter
		u.release()
	}
	return nil, fmt.Errorf("await bundle: %w", context.Cause(ctx))
}

// open begins to read the bytes of one unit, or of several that adjoin, from first's position on: at most length bytes,
// fewer where the object ends. ctx lives until the body is closed. Errors are objstore's.
func (c *Cache) open(ctx context.Context, first unitKey, length int64) (io.ReadCloser, error) {
	return c.cfg.Bucket.Get(ctx, c.cfg.Key(first.bundle), int64(first.first), length)
}
