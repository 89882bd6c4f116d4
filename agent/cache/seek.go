package cache

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/freshet-io/freshet/internal/generation"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// maxSeeks bounds the seek tables that are kept: of objects of 1 GiB they take about 6 MiB.
const maxSeeks = 256

// seeks keeps bundles' seek tables, dropping the least recently used.
type seeks struct {
	reads singleflight.Group

	mu struct {
		sync.Mutex
		tables map[id.Bundle]*list.Element
		order  list.List // of *seekTable, the most recently used first
	}
}

type seekTable struct {
	bundle id.Bundle
	*bundle.Seek
}

func (s *seeks) get(b id.Bundle) *bundle.Seek {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.mu.tables[b]
	if e == nil {
		return nil
	}
	s.mu.order.MoveToFront(e)
	return e.Value.(*seekTable).Seek
}

func (s *seeks) put(b id.Bundle, table *bundle.Seek) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.tables == nil {
		s.mu.tables = make(map[id.Bundle]*list.Element)
	}
	if s.mu.tables[b] != nil {
		return
	}
	s.mu.tables[b] = s.mu.order.PushFront(&seekTable{b, table})
	if s.mu.order.Len() > maxSeeks {
		oldest := s.mu.order.Remove(s.mu.order.Back()).(*seekTable)
		delete(s.mu.tables, oldest.bundle)
	}
}

// recalled gives a position for a part to begin at from what is in memory: the reader's own, a unit's, the seek
// table's, or the extent's.
func (c *Cache) recalled(p *Part) uint32 {
	e := p.Extent
	if p.Position > e.Position && uint64(p.Position) < uint64(e.Position)+uint64(e.Length) {
		return p.Position
	}
	if p.Offset <= e.Base {
		return e.Position
	}
	if t := c.seeks.get(e.Bundle); t != nil && t.Len() > 0 {
		return t.Offset(e.Position, e.Length, p.Offset)
	}
	keys := unitKeys(e)
	for i := len(keys) - 1; i > 0; i-- {
		if at := c.store.mark(keys[i], e, p.Offset); at > 0 {
			return at
		}
	}
	return e.Position
}

// located is recalled, except that the seek table of a long extent is read where nothing better is known. Without one
// the way begins with the extent.
func (c *Cache) located(ctx context.Context, p *Part, to account) (uint32, error) {
	at := c.recalled(p)
	if at > p.Extent.Position || p.Offset <= p.Extent.Base || p.Extent.Length <= PartUnit {
		return at, nil
	}
	t, err := c.seekTable(ctx, p.Extent.Bundle, to)
	if err != nil {
		return 0, err
	}
	return t.Offset(p.Extent.Position, p.Extent.Length, p.Offset), nil
}

// Locate gives a position in an extent of kind Absolute for a part to begin at, if that is known. If not it begins to
// find out, without waiting.
func (c *Cache) Locate(p Part) (position uint32, known bool) {
	at, bundle := c.recalled(&p), p.Extent.Bundle
	if at > p.Extent.Position || p.Offset <= p.Extent.Base || p.Extent.Length <= PartUnit || c.seeks.get(bundle) != nil {
		return at, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, seeking := c.mu.seeking[bundle]; seeking || c.mu.closed {
		return 0, false
	}
	c.mu.seeking[bundle] = struct{}{}
	c.loads.Go(func() {
		_, _ = c.seekTable(c.ctx, bundle, account{CatchUp, p.Reader}) // what is wrong shows when it is read on
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.mu.seeking, bundle)
	})
	return 0, false
}

// SeekTime gives a position in an extent of kind Absolute to begin reading at for the first batch whose largest
// timestamp is ts or later: no such batch lies before it. It is the extent's end if there is none. Errors are those of
// Read.
func (c *Cache) SeekTime(ctx context.Context, e *extent.Extent, ts int64, class Class) (uint32, error) {
	if e.Kind != extent.Absolute || e.Length <= PartUnit {
		return e.Position, nil
	}
	t, err := c.seekTable(ctx, e.Bundle, account{class: class})
	if err != nil {
		return 0, err
	}
	return t.Time(e.Position, e.Length, ts), nil
}

// seekTable gives a bundle's seek table, reading it once for all who want it. A table that cannot be understood is as
// good as an empty one.
func (c *Cache) seekTable(ctx context.Context, b id.Bundle, to account) (*bundle.Seek, error) {
	if t := c.seeks.get(b); t != nil {
		return t, nil
	}
	c.mu.Lock()
	if c.mu.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	c.loads.Add(1) // before Close waits
	c.mu.Unlock()
	read := c.seeks.reads.DoChan(b.String(), func() (any, error) { return c.readSeek(b, to) })
	done := make(chan singleflight.Result, 1)
	go func() {
		defer c.loads.Done()
		done <- <-read
	}()
	select {
	case r := <-done:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*bundle.Seek), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("await seek table: %w", context.Cause(ctx))
	}
}

// readSeek reads a seek table within the class's bounds. Where that fails for other reasons than that the bundle is
// gone, reading begins with the extent.
func (c *Cache) readSeek(b id.Bundle, to account) (*bundle.Seek, error) {
	g, err := c.lanes[to.class].acquireFor(c.ctx, to.reader, bundle.SeekTail)
	if err != nil {
		return nil, ErrClosed
	}
	defer g.release(0)
	if err := c.budgets[to.class].Wait(c.ctx); err != nil {
		return nil, ErrClosed
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.GetTimeout)
	defer cancel()
	t, err := bundle.ReadSeek(ctx, c.cfg.Bucket, c.cfg.Key(b))
	switch {
	case err == nil:
		c.metrics.seeks.WithLabelValues(resultOK).Inc()
		c.seeks.put(b, t)
		return t, nil
	case errors.Is(err, objstore.ErrNotFound):
		c.metrics.seeks.WithLabelValues(resultNotFound).Inc()
		return nil, c.gone(b)
	}
	c.metrics.seeks.WithLabelValues(resultFailed).Inc()
	c.cfg.Log.Warn("seek table cannot be read", zap.Stringer("bundle", b), zap.Error(err))
	if errors.Is(err, bundle.ErrMalformed) || errors.Is(err, generation.ErrOther) {
		c.seeks.put(b, &bundle.Seek{})
	}
	return &bundle.Seek{}, nil
}
