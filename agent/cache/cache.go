package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

var (
	// ErrGone: the object does not exist (any more); the extent is not the newest truth. Look up again.
	ErrGone = errors.New("bundle is gone")
	// ErrClosed: the cache was closed.
	ErrClosed = errors.New("cache is closed")
)

// Cache holds units of bundles. Methods are safe for concurrent use.
type Cache struct {
	cfg     Config
	metrics *metrics
	store   *store
	lanes   [classes]*lane

	ctx   context.Context // of GETs; ends with Close
	stop  context.CancelFunc
	loads sync.WaitGroup

	mu struct {
		sync.Mutex
		flights map[unitKey]*flight
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
	}
	c.store = newStore(keep[Live], keep[CatchUp], c.metrics)
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.mu.flights = make(map[unitKey]*flight)
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
	c.store.put(u, Live)
}

// errAbsent: not all of the extent is in memory.
var errAbsent = errors.New("not in memory")

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
	b := &Bytes{Extent: *e, units: make([]*unit, 0, len(keys))}
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
		if u.own != nil { // a batch that was not accepted with the bundle's first commit
			c.store.drop(u)
			return nil, errAbsent
		}
		return nil, c.corrupt(b, &CorruptError{Position: int64(from), Offset: e.Base, Reason: "object ends before the extent"})
	}
	if err := makeReady(b.units, e, b.pieces); err != nil {
		defer b.Release()
		return nil, c.corrupt(b, err)
	}
	return b, nil
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
	for _, key := range unitKeys(e) {
		if !c.store.has(key) && c.lanes[class].idle(key.span()) {
			c.launch(key, class)
		}
	}
}

// ReadAhead is how many bytes one sequential reader may have read ahead: a quarter of what catch-up reads may keep, so
// that a few readers side by side do not drive out each other's.
func (c *Cache) ReadAhead() int64 { return c.store.limit[CatchUp] / 4 }

// maxEvictions bounds how often units may be gone again before all of an extent's are there together.
const maxEvictions = 2

// Read gives an extent's bytes, reading what is missing on the class's account; the caller releases them. Errors:
// ErrGone, a *CorruptError, ErrClosed, the context's, or the last one of the object store.
func (c *Cache) Read(ctx context.Context, e *extent.Extent, class Class) (*Bytes, error) {
	keys := unitKeys(e)
	if b, err := c.gather(e, keys, c.stored); !errors.Is(err, errAbsent) {
		c.metrics.hits.WithLabelValues(class.String()).Inc()
		return b, err
	}
	c.metrics.misses.WithLabelValues(class.String()).Inc()
	for range maxEvictions {
		if err := c.load(ctx, keys, class); err != nil {
			return nil, err
		}
		if b, err := c.gather(e, keys, c.stored); !errors.Is(err, errAbsent) {
			return b, err
		}
	}
	// The extent does not stay in memory for long enough, because it is larger than the class's bound or that is in
	// great demand: take the units from their GETs.
	return c.gather(e, keys, func(key unitKey) (*unit, error) {
		if u := c.store.get(key); u != nil {
			return u, nil
		}
		return c.join(key, class).wait(ctx, c)
	})
}

// load reads the units that are not in memory, all at once.
func (c *Cache) load(ctx context.Context, keys []unitKey, class Class) error {
	flights := make([]*flight, 0, len(keys))
	for _, key := range keys {
		if !c.store.has(key) {
			flights = append(flights, c.join(key, class))
		}
	}
	var first error
	for _, f := range flights { // all of them: each has this waiter counted
		u, err := f.wait(ctx, c)
		if err == nil {
			u.release()
		} else if first == nil {
			first = err
		}
	}
	return first
}
