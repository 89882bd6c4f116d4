package cache

import (
	"context"
	"errors"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
)

// Part is what to read of an extent: from the batch on that holds Offset, or the next one where no batch does. Extents
// of kind Absolute are read by parts, since their batches say their own offsets; others as a whole, whatever the part.
type Part struct {
	Extent *extent.Extent
	Offset int64
	// Position in the object where a batch begins, that one or an earlier one of the extent, if that is known; else 0.
	Position uint32
	// Bytes that are wanted: no batches after those that fit, but one at least.
	Bytes int
	// Reader on whose account missing bytes are read; 0: of all that have no number.
	Reader uint64
}

// ResidentPart gives a part's bytes, as far as the first of them are in memory. The error is a *CorruptError.
func (c *Cache) ResidentPart(p Part) (*Bytes, bool, error) {
	if p.Extent.Kind != extent.Absolute {
		return c.Resident(p.Extent)
	}
	b, err := c.walk(p, c.stored, func(*Part) (uint32, error) { return c.recalled(&p), nil })
	if errors.Is(err, errAbsent) {
		return nil, false, nil
	}
	return b, err == nil, err
}

// ReadPart gives a part's bytes, up to the end of a unit, reading what is missing on the class's account; the caller
// releases them. There are none where the extent has no batch at or after the offset. Errors are those of Read.
func (c *Cache) ReadPart(ctx context.Context, p Part, class Class) (*Bytes, error) {
	to := account{class: class, reader: p.Reader}
	if p.Extent.Kind != extent.Absolute {
		return c.read(ctx, p.Extent, to)
	}
	b, ok, err := c.ResidentPart(p)
	if ok || err != nil && !errors.Is(err, errAbsent) {
		c.metrics.hits[class].Inc()
		return b, err
	}
	c.metrics.misses[class].Inc()
	for _, direct := range []bool{false, true} {
		b, err = c.walk(p, c.flown(ctx, to, direct), func(p *Part) (uint32, error) { return c.located(ctx, p, to) })
		if !errors.Is(err, errUnfit) {
			break
		}
	}
	return b, err
}

// walk goes through the extent's batches from a known one to those wanted, verifying them, and keeps those. find gives
// units pinned, begin a position to begin at.
func (c *Cache) walk(p Part, find func(unitKey) (*unit, error), begin func(*Part) (uint32, error)) (*Bytes, error) {
	at, err := begin(&p)
	if err != nil {
		return nil, err
	}
	w := walk{
		cache: c, part: p, find: find, at: uint64(at), end: uint64(p.Extent.Position) + uint64(p.Extent.Length),
	}
	defer w.release()
	if err := w.seek(); err != nil {
		return nil, err
	}
	return w.take()
}

// walk is a way through an extent.
type walk struct {
	cache *Cache
	part  Part
	find  func(unitKey) (*unit, error)
	units []*unit // pinned, adjoining; the first holds at
	at    uint64  // where the next batch begins in the object
	end   uint64  // of the extent

	scratch [kafkaproto.BatchOverhead]byte
}

func (w *walk) release() {
	for _, u := range w.units {
		u.release()
	}
}

// batch is one batch's header, as far as walks need it.
type batch struct {
	size int
	base int64
	last int64
}

// seek goes to the first batch that does not end below the offset.
func (w *walk) seek() error {
	for w.at < w.end {
		if err := w.hold(w.at); err != nil {
			return err
		}
		w.at = max(w.at, uint64(w.units[0].mark(w.part.Extent, w.part.Offset)))
		b, err := w.next()
		if err != nil {
			return err
		}
		if b.last >= w.part.Offset {
			return nil
		}
		w.at += uint64(b.size)
	}
	return nil
}

// take collects batches as far as they are wanted and lie in the units at hand; the first one in any case.
func (w *walk) take() (*Bytes, error) {
	b := &Bytes{Extent: *w.part.Extent, Position: uint32(w.at)}
	from := w.at
	for w.at < w.end {
		if w.at > from && !w.holds(w.at, kafkaproto.BatchOverhead) {
			break
		}
		next, err := w.header()
		if err != nil {
			return nil, err
		}
		if w.at > from {
			if w.at-from+uint64(next.size) > uint64(max(w.part.Bytes, 0)) || !w.holds(w.at, next.size) {
				break
			}
		}
		if err := w.check(next); err != nil {
			return nil, err
		}
		w.at += uint64(next.size)
	}
	for _, u := range w.units {
		lo, hi := max(from, uint64(u.key.first)), min(w.at, uint64(u.key.first)+uint64(u.key.span()))
		if lo >= hi {
			continue
		}
		u.retain()
		b.units = append(b.units, u)
		b.pieces, _ = u.slice(b.pieces, lo, hi) // all there: they were verified
	}
	b.More = w.at < w.end
	return b, nil
}

// next is the batch at hand, verified.
func (w *walk) next() (batch, error) {
	b, err := w.header()
	if err != nil {
		return b, err
	}
	return b, w.check(b)
}

// hold makes the unit that holds a position the first one.
func (w *walk) hold(at uint64) error {
	for len(w.units) > 0 && uint64(w.units[0].key.first)+PartUnit <= at {
		w.units[0].release()
		w.units = w.units[1:]
	}
	return w.reach(at + 1)
}

// holds tells whether the units at hand reach to the end of n bytes.
func (w *walk) holds(at uint64, n int) bool {
	return len(w.units) > 0 && at+uint64(n) <= uint64(w.units[len(w.units)-1].key.first)+PartUnit
}

// reach adds units until they hold everything below a position.
func (w *walk) reach(to uint64) error {
	for {
		key := unitKey{bundle: w.part.Extent.Bundle, first: uint32(w.at / PartUnit * PartUnit), part: true}
		if n := len(w.units); n > 0 {
			end := uint64(w.units[n-1].key.first) + PartUnit
			if end >= to {
				return nil
			}
			key.first = uint32(end)
		}
		u, err := w.find(key)
		if err != nil {
			return err
		}
		w.units = append(w.units, u)
	}
}

// pieces are n bytes from where the walk is.
func (w *walk) pieces(n int) (pieces, error) {
	if err := w.reach(w.at + uint64(n)); err != nil {
		return nil, err
	}
	var p pieces
	for _, u := range w.units {
		lo, hi := max(w.at, uint64(u.key.first)), min(w.at+uint64(n), uint64(u.key.first)+PartUnit)
		if lo >= hi {
			continue
		}
		var whole bool
		if p, whole = u.slice(p, lo, hi); !whole {
			if u.foreign {
				return nil, w.cache.unfit(w.units, UnfitIncomplete)
			}
			return nil, w.corrupt(w.fault("object ends before the extent"))
		}
	}
	return p, nil
}

// header reads the header of the batch at hand, which may be wrong in all but that it ends within the extent.
func (w *walk) header() (batch, error) {
	if w.end-w.at < kafkaproto.BatchOverhead {
		return batch{}, w.corrupt(w.fault("shorter than a batch"))
	}
	p, err := w.pieces(kafkaproto.BatchOverhead)
	if err != nil {
		return batch{}, err
	}
	c := cursor{rest: p}
	h := kafkaproto.RecordBatch(c.peek(w.scratch[:]))
	if reason := faulty(h, w.part.Extent, int64(w.end-w.at)); reason != "" {
		return batch{}, w.corrupt(w.fault(reason))
	}
	return batch{size: h.Length(), base: h.BaseOffset(), last: h.LastOffset()}, nil
}

// faulty tells what is wrong with a header of an absolute extent's batch; left are the bytes up to the extent's end.
func faulty(h kafkaproto.RecordBatch, e *extent.Extent, left int64) string {
	switch {
	case h.Magic() != 2:
		return "not a batch of format 2"
	case h.Length() < kafkaproto.BatchOverhead || int64(h.Length()) > left:
		return "length out of the extent"
	case h.LastOffsetDelta() < 0:
		return "negative last offset delta"
	case h.BaseOffset() < e.Base || h.LastOffset() > e.Last:
		return "offsets out of the extent"
	}
	return ""
}

// check verifies and patches the batch at hand, once for each time its unit is read. What lies in several units is
// verified each time, because they may be exchanged one at a time.
func (w *walk) check(b batch) error {
	p, err := w.pieces(b.size)
	if err != nil {
		return err
	}
	within := w.units
	for uint64(within[0].key.first)+PartUnit <= w.at {
		within = within[1:]
	}
	for n := 1; n < len(within); n++ {
		if uint64(within[n].key.first) >= w.at+uint64(b.size) {
			within = within[:n]
		}
	}
	for _, u := range within { // in the order of positions, so that nobody waits crosswise
		u.mu.Lock()
		defer u.mu.Unlock()
	}
	if len(within) == 1 && within[0].checked(uint32(w.at), b.size) {
		return nil
	}
	e := extent.Extent{
		Kind: extent.Absolute, Base: b.base, Last: b.last, Position: uint32(w.at), Length: uint32(b.size),
	}
	if err := verify(&e, p); err != nil {
		return w.corrupt(err)
	}
	patch(&e, p)
	if len(within) == 1 {
		within[0].note(w.part.Extent.Position, uint32(w.at), b)
	}
	return nil
}

func (w *walk) fault(reason string) *CorruptError {
	return &CorruptError{Position: int64(w.at), Offset: w.part.Offset, Reason: reason}
}

// corrupt forgets the units at hand and reports, unless another agent sent one of them: then that is read anew.
func (w *walk) corrupt(err *CorruptError) error {
	for _, u := range w.units {
		if u.foreign {
			return w.cache.unfit(w.units, UnfitCorrupt)
		}
	}
	return w.cache.corrupt(&Bytes{Extent: *w.part.Extent, units: w.units}, err)
}
