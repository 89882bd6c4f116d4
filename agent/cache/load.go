package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/freshet-io/freshet/objstore"
)

// flight is one GET that readers of the same unit wait for together. It goes on when they leave, for who comes next.
type flight struct {
	done chan struct{}
	unit *unit // one reference for each waiter
	err  error

	waiters int // guarded by the cache's lock
	ended   bool
}

// join waits with others for a unit's GET, or begins it. Each join is followed by one wait.
func (c *Cache) join(key unitKey, class Class) *flight { return c.takeOff(key, class, 1) }

// launch begins a unit's GET if there is none.
func (c *Cache) launch(key unitKey, class Class) { c.takeOff(key, class, 0) }

func (c *Cache) takeOff(key unitKey, class Class, waiters int) *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.mu.flights[key]; f != nil {
		f.waiters += waiters
		return f
	}
	f := &flight{done: make(chan struct{}), waiters: waiters}
	if c.mu.closed {
		f.err, f.ended = ErrClosed, true
		close(f.done)
		return f
	}
	c.mu.flights[key] = f
	c.loads.Add(1)
	go c.fly(f, key, class)
	return f
}

// fly reads the unit and ends the flight.
func (c *Cache) fly(f *flight, key unitKey, class Class) {
	defer c.loads.Done()
	u, kept, err := c.fetch(key, class)
	if err == nil && !kept {
		u.retain() // the cache's
		c.store.put(u, class)
	}
	c.mu.Lock()
	delete(c.mu.flights, key)
	f.unit, f.err, f.ended = u, err, true
	if u != nil {
		u.refs.Add(int32(f.waiters))
	}
	c.mu.Unlock()
	if u != nil {
		u.release() // this goroutine's
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

// fetch GETs a unit, within the class's bounds and with retries; its one reference is the caller's. kept says that
// the cache has it already.
func (c *Cache) fetch(key unitKey, class Class) (_ *unit, kept bool, err error) {
	g, err := c.lanes[class].acquire(c.ctx, key.span())
	if err != nil {
		return nil, false, ErrClosed
	}
	if u := c.store.get(key); u != nil && u.own == nil {
		g.release(0)
		return u, true, nil // it came while this GET waited its turn
	} else if u != nil {
		u.release()
	}
	began := time.Now()
	u, err := c.attempts(key, class, g)
	if err != nil {
		g.release(0)
		return nil, false, err
	}
	g.release(u.size)
	c.metrics.latency.Observe(time.Since(began).Seconds())
	return u, false, nil
}

// attempts tries a GET until it succeeds or trying is of no use.
func (c *Cache) attempts(key unitKey, class Class, g *grant) (*unit, error) {
	pause := c.cfg.Backoff
	for attempt := 1; ; attempt++ {
		u, err := c.get(key, class, g)
		switch {
		case err == nil:
			return u, nil
		case errors.Is(err, objstore.ErrNotFound):
			return nil, fmt.Errorf("get bundle %s: %w", key.bundle, ErrGone)
		case c.ctx.Err() != nil:
			return nil, ErrClosed
		case attempt == c.cfg.Attempts:
			return nil, fmt.Errorf("get bundle %s, attempt %d: %w", key.bundle, attempt, err)
		}
		select {
		case <-time.After(pause + rand.N(pause/2+1)):
			pause *= 2
		case <-c.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// Results of a GET attempt, as metrics show them.
const (
	resultOK       = "ok"
	resultNotFound = "not_found"
	resultFailed   = "failed"
)

// get is one attempt.
func (c *Cache) get(key unitKey, class Class, g *grant) (*unit, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.GetTimeout)
	defer cancel()
	u, err := c.read(ctx, key, g)
	result := resultOK
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		result = resultNotFound
	case err != nil:
		result = resultFailed
	default:
		c.metrics.readBytes.WithLabelValues(class.String()).Add(float64(u.size))
	}
	c.metrics.gets.WithLabelValues(class.String(), result).Inc()
	return u, err
}

func (c *Cache) read(ctx context.Context, key unitKey, g *grant) (*unit, error) {
	body, err := c.cfg.Bucket.Get(ctx, c.cfg.Key(key.bundle), int64(key.first), key.span())
	if err != nil {
		return nil, err
	}
	segments, size, free, err := readChunks(body, key.first, func(size int64) error { return g.grow(ctx, size) })
	if cerr := body.Close(); err == nil && cerr != nil {
		free()
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	u := &unit{key: key, segments: segments, size: size, free: free}
	u.retain()
	return u, nil
}
