package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

var (
	// ErrGone is the error that a *GoneError wraps.
	ErrGone = errors.New("bundle is gone")
	// ErrClosed: the cache was closed.
	ErrClosed = errors.New("cache is closed")
)

// GoneError is returned when a bundle's object does not exist. Usually the extent is outdated, and a look-up returns
// another one.
type GoneError struct {
	Bundle id.Bundle
	Key    string // of the object
}

// Error implements error.
func (e *GoneError) Error() string { return fmt.Sprintf("get bundle %s: %v", e.Bundle, ErrGone) }

// Unwrap returns ErrGone.
func (e *GoneError) Unwrap() error { return ErrGone }

func (c *Cache) gone(b id.Bundle) error { return &GoneError{Bundle: b, Key: c.cfg.Key(b)} }

// Cache holds units of bundles. Methods are safe for concurrent use.
type Cache struct {
	cfg     Config
	metrics *metrics
	store   *store
	lanes   [classes]*lane
	budgets [classes]*rate.Limiter // of GETs
	seeks   seeks

	ctx   context.Context // of GETs; ends with Close
	stop  context.CancelFunc
	loads sync.WaitGroup

	mu struct {
		sync.Mutex
		flights map[flightKey]*flight
		seeking map[id.Bundle]struct{} // whose seek tables are being read for whom comes next
		closed  bool
	}
}

// New checks the configuration and makes an empty cache.
func New(cfg Config) (*Cache, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	c := &Cache{cfg: cfg}
	c.metrics = newMetrics(cfg.Registerer, func() float64 { return float64(c.Pinned()) })
	var keep [classes]int64
	for class, b := range [classes]Bounds{Live: cfg.Live, CatchUp: cfg.CatchUp} {
		room := max(b.Bytes/4, min(WholeUnit, b.Bytes/2))
		keep[class] = b.Bytes - room
		c.lanes[class] = newLane(b.Gets, room)
		c.budgets[class] = rate.NewLimiter(b.limit(), b.Gets)
	}
	c.store = newStore(keep[Live], keep[CatchUp], c.metrics)
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.mu.flights = make(map[flightKey]*flight)
	c.mu.seeking = make(map[id.Bundle]struct{})
	return c, nil
}

// Pinned is the memory of bundles that left the cache and are still held by readers, bytes.
func (c *Cache) Pinned() int64 { return c.store.pinned.Load() }

// Close ends the GETs under way, waits for them and refuses further ones. Bytes that readers hold stay valid.
func (c *Cache) Close() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.stop()
	c.loads.Wait()
}

// Put takes over an own bundle that was committed: never before, so that nothing is readable ahead of durability
// (I1). It adds a reference to own, which it gives back when the bundle has left the cache and its readers are done.
func (c *Cache) Put(bundle id.Bundle, own Own) {
	own.Retain()
	u := &unit{key: unitKey{bundle: bundle}, own: own, size: own.Held(), free: own.Release}
	u.retain()
	c.metrics.handed.Add(float64(u.size))
	c.store.put(u, Live, false)
}

var (
	// errAbsent: not all of the extent is in memory.
	errAbsent = errors.New("not in memory")
	// errUnfit: what the writer or another agent left of the bundle does not serve the extent. Only the object does.
	errUnfit = fmt.Errorf("object needed: %w", errAbsent)
)

// Resident gives an extent's bytes if they are all in memory. The error is a *CorruptError.
func (c *Cache) Resident(e *extent.Extent) (*Bytes, bool, error) {
	b, err := c.gather(e, unitKeys(e), c.stored)
	if errors.Is(err, errAbsent) {
		return nil, false, nil
	}
	return b, err == nil, err
}

func (c *Cache) stored(key unitKey) (*unit, error) {
	if u := c.store.get(key); u != nil {
		return u, nil
	}
	return nil, errAbsent
}

// gather puts an extent together from its units, which find gives pinned, and makes it readable.
func (c *Cache) gather(e *extent.Extent, keys []unitKey, find func(unitKey) (*unit, error)) (*Bytes, error) {
	b := &Bytes{Extent: *e, Position: e.Position, units: make([]*unit, 0, len(keys))}
	end := uint64(e.Position) + uint64(e.Length)
	for _, key := range keys {
		u, err := find(key)
		if err != nil {
			b.Release()
			return nil, err
		}
		b.units = append(b.units, u)
		from, to := max(uint64(e.Position), uint64(key.first)), min(end, uint64(key.first)+uint64(key.span()))
		var whole bool
		if b.pieces, whole = u.slice(b.pieces, from, to); whole {
			continue
		}
		defer b.Release()
		if u.secondHand() { // a batch that was not accepted with the bundle's first commit
			return nil, c.unfit(b.units, UnfitIncomplete)
		}
		return nil, c.corrupt(b, &CorruptError{Position: int64(from), Offset: e.Base, Reason: "object ends before the extent"})
	}
	if err := makeReady(b.units, e, b.pieces); err != nil {
		defer b.Release()
		if slices.ContainsFunc(b.units, func(u *unit) bool { return u.foreign }) {
			return nil, c.unfit(b.units, UnfitCorrupt)
		}
		return nil, c.corrupt(b, err)
	}
	return b, nil
}

// unfit forgets units from elsewhere than the object store.
func (c *Cache) unfit(units []*unit, why Unfit) error {
	for _, u := range units {
		if u.secondHand() {
			c.store.drop(u)
		}
		if u.foreign {
			c.cfg.Zone.Unfit(why)
		}
	}
	return errUnfit
}

// corrupt reports bytes that failed and forgets their units, so that the next reader gets them anew.
func (c *Cache) corrupt(b *Bytes, err *CorruptError) error {
	err.Key = c.cfg.Key(b.Extent.Bundle)
	c.metrics.corrupt.Inc()
	c.cfg.Log.Error("corrupt batch in the object store", zap.String("key", err.Key),
		zap.Int64("position", err.Position), zap.Int64("offset", err.Offset),
		zap.Uint32("checksum_stored", err.Stored), zap.Uint32("checksum_computed", err.Computed),
		zap.String("reason", err.Reason))
	for _, u := range b.units {
		c.store.drop(u)
	}
	return err
}

// Start begins to read what an extent needs and memory lacks, without waiting. Above the class's bounds it does
// nothing: read-ahead must not delay what readers wait for.
func (c *Cache) Start(e *extent.Extent, class Class) {
	var keys []unitKey
	for _, key := range unitKeys(e) {
		if !c.store.has(key) && c.lanes[class].idle(key.span()) {
			keys = append(keys, key)
		}
	}
	if len(keys) > 0 {
		c.launch(keys, account{class: class})
	}
}

// maxEvictions bounds how often units may be gone again before all of an extent's are there together.
const maxEvictions = 2

// Read returns an extent's bytes. It reads missing bytes on the class's account. The caller releases the bytes. Errors:
// a *GoneError, a *CorruptError, ErrClosed, the context's, or the last one of the object store.
func (c *Cache) Read(ctx context.Context, e *extent.Extent, class Class) (*Bytes, error) {
	return c.read(ctx, e, account{class: class})
}

func (c *Cache) read(ctx context.Context, e *extent.Extent, to account) (*Bytes, error) {
	keys := unitKeys(e)
	b, err := c.gather(e, keys, c.stored)
	if !errors.Is(err, errAbsent) {
		c.metrics.hits[to.class].Inc()
		return b, err
	}
	c.metrics.misses[to.class].Inc()
	direct := errors.Is(err, errUnfit)
	for range maxEvictions {
		if err := c.load(ctx, keys, to, direct); err != nil {
			return nil, err
		}
		if b, err = c.gather(e, keys, c.stored); !errors.Is(err, errAbsent) {
			return b, err
		}
		direct = direct || errors.Is(err, errUnfit)
	}
	// The extent does not stay in memory for long enough, because it is larger than the class's bound or that is in
	// great demand: take the units from their flights.
	if b, err = c.gather(e, keys, c.flown(ctx, to, direct)); errors.Is(err, errUnfit) {
		b, err = c.gather(e, keys, c.flown(ctx, to, true))
	}
	return b, err
}

// flown finds units in memory or waits for their reading; direct leaves out what is not the object store's.
func (c *Cache) flown(ctx context.Context, to account, direct bool) func(unitKey) (*unit, error) {
	return func(key unitKey) (*unit, error) {
		if u := c.store.get(key); u != nil {
			if !direct || !u.secondHand() {
				return u, nil
			}
			u.release()
		}
		return c.join([]unitKey{key}, to, direct)[0].wait(ctx, c)
	}
}

// load reads the units that are not in memory, all at once.
func (c *Cache) load(ctx context.Context, keys []unitKey, to account, direct bool) error {
	absent := make([]unitKey, 0, len(keys))
	for _, key := range keys {
		if !c.store.has(key) {
			absent = append(absent, key)
		}
	}
	var first error
	for _, f := range c.join(absent, to, direct) { // all of them: each has this waiter counted
		u, err := f.wait(ctx, c)
		if err == nil {
			u.release()
		} else if first == nil {
			first = err
		}
	}
	return first
}
