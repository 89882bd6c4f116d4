package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/freshet-io/freshet/objstore"
)

// run reads units that adjoin by one GET. Each is readable as soon as its bytes are there. What nobody waits for is read
// no faster than readers use up what was read ahead for them: the GET stands still meanwhile, and is given up where that
// takes long or others need its place.
type run struct {
	cache   *Cache
	to      account
	flights []*flight // not landed yet, in order
	wake    chan struct{}
}

// newRun makes the GET of flights that adjoin. The cache's lock is held.
func newRun(c *Cache, flights []*flight) *run {
	r := &run{
		cache: c, to: account{flights[0].class, flights[0].reader}, flights: flights, wake: make(chan struct{}, 1),
	}
	for _, f := range flights {
		f.run = r
	}
	return r
}

// errLeft: the run ended before this unit, because nobody waited for it.
var errLeft = errors.New("read-ahead was given up")

// maxStill bounds how long a GET stands still with its body open.
const maxStill = 5 * time.Second

// poke makes the run look again whether somebody waits.
func (r *run) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// fly reads the units and ends their flights.
func (r *run) fly() {
	c := r.cache
	g, err := c.lanes[r.to.class].acquireFor(c.ctx, r.to.reader, r.flights[0].key.span())
	if err != nil {
		r.fail(ErrClosed)
		return
	}
	defer g.release(0)
	began := time.Now()
	if err := r.attempts(g); err != nil {
		r.fail(err)
		return
	}
	c.metrics.latency.Observe(time.Since(began).Seconds())
}

// fail ends what is left.
func (r *run) fail(err error) {
	for _, f := range r.flights {
		r.cache.land(f, nil, false, err)
	}
	r.flights = nil
}

const (
	// maxAttempts bounds the attempts of a GET.
	maxAttempts = 4
	// firstPause is the pause after the first failed attempt. It doubles, with jitter.
	firstPause = 50 * time.Millisecond
)

// attempts tries until the units are there or trying is of no use. Attempts count anew with each unit that came.
func (r *run) attempts(g *grant) error {
	c, pause := r.cache, firstPause
	for attempt := 1; ; attempt++ {
		before := len(r.flights)
		err := r.get(g)
		if len(r.flights) < before {
			attempt, pause = 1, firstPause
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, objstore.ErrNotFound):
			return c.gone(r.flights[0].key.bundle)
		case c.ctx.Err() != nil:
			return ErrClosed
		case attempt >= maxAttempts:
			return fmt.Errorf("get bundle %s, attempt %d: %w", r.flights[0].key.bundle, attempt, err)
		}
		select {
		case <-time.After(pause + rand.N(pause/2+1)):
			pause *= 2
		case <-c.ctx.Done():
			return ErrClosed
		}
	}
}

// Results of a GET attempt, as metrics show them.
const (
	resultOK       = "ok"
	resultNotFound = "not_found"
	resultFailed   = "failed"
)

// get is one attempt at the units that are left.
func (r *run) get(g *grant) error {
	c := r.cache
	r.landKept()
	if len(r.flights) == 0 || !r.mayBegin() {
		return nil
	}
	if err := c.budgets[r.to.class].Wait(c.ctx); err != nil {
		return fmt.Errorf("await request budget: %w", err)
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	stall := time.AfterFunc(c.cfg.GetTimeout, func() { cancel(context.DeadlineExceeded) })
	defer stall.Stop()
	err := r.stream(ctx, g, stall)
	result := resultOK
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		result = resultNotFound
	case err != nil:
		result = resultFailed
	}
	c.metrics.gets.WithLabelValues(r.to.class.String(), result).Inc()
	return err
}

// landKept ends the flights of first units that came while this run waited its turn.
func (r *run) landKept() {
	for len(r.flights) > 0 {
		u := r.cache.store.get(r.flights[0].key.unitKey)
		if u == nil {
			return
		}
		if u.secondHand() { // it may lack what is asked for, or be damaged
			u.release()
			return
		}
		r.cache.land(r.flights[0], u, true, nil)
		r.flights = r.flights[1:]
	}
}

// mayBegin tells whether there is use or any room for the first unit, whose size is not known; if not, the run is over.
func (r *run) mayBegin() bool {
	ok, _ := r.cache.store.roomAhead(r.to.class, r.to.reader, 1)
	if ok || !r.cache.leave(r.flights) {
		return true
	}
	r.flights = nil
	return false
}

// stream reads the units from one body.
func (r *run) stream(ctx context.Context, g *grant, stall *time.Timer) error {
	c, first := r.cache, r.flights[0].key
	body, err := c.open(ctx, first.unitKey, int64(len(r.flights))*first.span())
	if err != nil {
		return err
	}
	defer body.Close()
	for n := 0; len(r.flights) > 0; n++ {
		if n > 0 && !r.goOn(ctx, stall) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		u, err := r.read(ctx, body, g)
		if err != nil {
			return fmt.Errorf("read object: %w", err)
		}
		c.metrics.readBytes.WithLabelValues(r.to.class.String()).Add(float64(u.size))
		g.done(u.size)
		c.land(r.flights[0], u, false, nil)
		r.flights = r.flights[1:]
	}
	return nil
}

// read takes the next unit from the body; its one reference is the caller's.
func (r *run) read(ctx context.Context, body io.Reader, g *grant) (*unit, error) {
	key := r.flights[0].key
	segments, size, free, err := readChunks(io.LimitReader(body, key.span()), key.first,
		func(size int64) error { return g.grow(ctx, size) })
	if err != nil {
		return nil, err
	}
	u := &unit{key: key.unitKey, segments: segments, size: size, free: free, reader: r.to.reader}
	u.retain()
	return u, nil
}

// goOn waits until the next unit is wanted, or there is room to read ahead; false if the run is over instead.
func (r *run) goOn(ctx context.Context, stall *time.Timer) bool {
	c := r.cache
	stall.Stop()
	defer stall.Reset(c.cfg.GetTimeout)
	still := time.NewTimer(maxStill)
	defer still.Stop()
	for {
		if c.wanted(r.flights) {
			return true
		}
		ok, freed := c.store.roomAhead(r.to.class, r.to.reader, r.flights[0].key.span())
		if ok {
			return true
		}
		over := false
		select {
		case <-r.wake:
		case <-freed:
		case <-still.C:
			over = true
		case <-c.lanes[r.to.class].contended():
			over = true
		case <-ctx.Done():
			return true
		}
		if over && c.leave(r.flights) {
			r.flights = nil
			return false
		}
	}
}

// leave ends flights that nobody waits for, if that is all of them.
func (c *Cache) leave(flights []*flight) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if waitedFor(flights) {
		return false
	}
	for _, f := range flights {
		delete(c.mu.flights, f.key)
		f.err = errLeft
		close(f.done)
	}
	return true
}

// wanted tells whether somebody waits for one of them.
func (c *Cache) wanted(flights []*flight) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return waitedFor(flights)
}

// waitedFor is wanted under the lock.
func waitedFor(flights []*flight) bool {
	return slices.ContainsFunc(flights, func(f *flight) bool { return f.waiters > 0 })
}
