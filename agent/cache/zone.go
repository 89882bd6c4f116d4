package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/id"
)

// Unit names a unit within its bundle: the beginning, up to WholeUnit, or PartUnit bytes from First on.
type Unit struct {
	First uint32 // position in the object; a multiple of PartUnit, 0 unless Part
	Part  bool
}

// Ask is what a cache wants of the other agents of its zone: units of one bundle.
type Ask struct {
	Bundle id.Bundle
	Class  Class
	Units  []Unit
}

// Zone is the other agents of this agent's zone: peer.Zone implements it.
type Zone interface {
	// Fetch asks those agents for units that may have them, or should read them for all. It calls take with each unit
	// that comes, by its index in the ask, and leave with those that this agent is to read from the object store, in
	// order, as soon as that is known; a unit that take failed for may be tried again or left. take may wait for a while.
	// The calls come from any goroutine. It returns when all units are taken or left, soon after ctx ends at the latest.
	Fetch(ctx context.Context, a Ask, take func(unit int, in Incoming) error, leave func(units []int))
	// Unfit is told that what an agent gave was of no use: it lacked an extent, or failed verification.
	Unfit(reason Unfit)
}

// Unfit is why a unit of another agent was of no use. The object store is read then.
type Unfit uint8

const (
	UnfitIncomplete Unfit = iota // batches of the extent are not in it
	UnfitCorrupt                 // a batch failed verification
)

// Incoming is a unit as another agent sends it: stretches of the object's bytes, in the order of positions.
type Incoming interface {
	Size() int64   // bytes of all stretches
	Partial() bool // some of the object's bytes are left out
	// Next gives the next stretch, io.EOF after the last. The one before must have been read.
	Next() (position, length uint32, err error)
	// Reader reads the stretch; io.EOF is an error.
	io.Reader
}

// roomTimeout bounds the wait for memory to take a unit in: the agent that sends it holds it meanwhile.
const roomTimeout = 5 * time.Second

// flyByZone reads units of one bundle from the zone's agents, and those that none of them has from the object store.
func (c *Cache) flyByZone(flights []*flight) {
	flights = c.unkept(flights)
	if len(flights) == 0 {
		return
	}
	a := Ask{Bundle: flights[0].key.bundle, Class: flights[0].class, Units: make([]Unit, len(flights))}
	for i, f := range flights {
		a.Units[i] = Unit{First: f.key.first, Part: f.key.part}
	}
	take := func(i int, in Incoming) error {
		if !c.awaitUse(flights[i]) {
			return ErrUnwanted
		}
		u, err := c.takeIn(flights[i], in)
		if err != nil {
			return err
		}
		c.land(flights[i], u, false, nil)
		return nil
	}
	c.cfg.Zone.Fetch(c.ctx, a, take, func(units []int) {
		left := make([]*flight, len(units))
		for k, i := range units {
			left[k] = flights[i]
		}
		c.divert(left)
	})
}

// unkept ends the flights of units that came just before they began, and gives the others.
func (c *Cache) unkept(flights []*flight) []*flight {
	var rest []*flight
	for _, f := range flights {
		if u := c.store.get(f.key.unitKey); u != nil {
			c.land(f, u, true, nil)
		} else {
			rest = append(rest, f)
		}
	}
	return rest
}

// awaitUse waits until a unit that is there is wanted or there is room to read it ahead, as a run does between its units;
// false if the flight was given up instead, now or when another agent had the unit.
func (c *Cache) awaitUse(f *flight) bool {
	c.mu.Lock()
	if c.mu.flights[f.key] != f {
		c.mu.Unlock()
		return false
	}
	r := newRun(c, []*flight{f})
	c.mu.Unlock()
	idle := time.NewTimer(0) // a run's GET may stall; here the agents' time-outs hold
	defer idle.Stop()
	return r.goOn(c.ctx, idle)
}

// divert lets flights go on by way of the object store: as direct ones, or behind those that there are.
func (c *Cache) divert(flights []*flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var alone []*flight
	for _, f := range flights {
		if c.mu.flights[f.key] != f {
			continue // given up
		}
		key := flightKey{f.key.unitKey, true}
		if ahead := c.mu.flights[key]; ahead != nil {
			ahead.waiters++
			ahead.run.poke()
			c.loads.Go(func() {
				u, err := ahead.wait(context.Background(), c) // it ends with the cache
				c.land(f, u, true, err)
			})
			continue
		}
		delete(c.mu.flights, f.key)
		f.key = key
		c.mu.flights[key] = f
		alone = append(alone, f)
	}
	c.depart(alone, true)
}

// takeIn reads a unit that another agent sends, within the class's bounds. Its one reference is the caller's.
func (c *Cache) takeIn(f *flight, in Incoming) (*unit, error) {
	size := in.Size()
	if size <= 0 || size > f.key.span() {
		return nil, fmt.Errorf("%w: a unit of %d bytes", ErrStretches, size)
	}
	ctx, cancel := context.WithTimeout(c.ctx, roomTimeout)
	defer cancel()
	g, err := c.lanes[f.class].acquireFor(ctx, f.reader, size)
	if err != nil {
		return nil, fmt.Errorf("take in unit: %w", err)
	}
	p := packer{key: f.key.unitKey, left: size, reserve: func(size int64) error { return g.grow(ctx, size) }}
	if err := p.readAll(in); err != nil {
		p.free()
		g.release(0)
		return nil, fmt.Errorf("take in unit: %w", err)
	}
	g.release(size)
	u := &unit{
		key: f.key.unitKey, segments: p.segments, size: size, reader: f.reader, free: p.free,
		foreign: true, gaps: in.Partial(),
	}
	u.retain()
	return u, nil
}

// ErrUnwanted: the unit was read ahead for a reader who did not come, and there is no room for it.
var ErrUnwanted = errors.New("unit is not wanted")

// ErrStretches: what another agent sends is not a unit.
var ErrStretches = errors.New("stretches do not make up the unit")

// packer reads stretches into chunks, one behind the other whatever lies between them in the object.
type packer struct {
	key     unitKey
	left    int64 // bytes to come
	packed  int64
	reserve func(size int64) error

	taken    []*[chunkSize]byte
	room     []byte // of the newest chunk
	segments []segment
}

func (p *packer) free() {
	for _, c := range p.taken {
		chunks.Put(c)
	}
}

func (p *packer) readAll(in Incoming) error {
	at, most := uint64(p.key.first), p.left/kafkaproto.BatchOverhead+2
	for n := int64(0); ; n++ {
		position, length, err := in.Next()
		if errors.Is(err, io.EOF) && p.left == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		end := uint64(position) + uint64(length)
		if uint64(position) < at || end > uint64(p.key.first)+uint64(p.key.span()) || int64(length) > p.left || n == most {
			return fmt.Errorf("%w: [%d, %d) after %d", ErrStretches, position, end, at)
		}
		if err := p.read(in, position, int(length)); err != nil {
			return err
		}
		at = end
	}
}

// read takes one stretch in.
func (p *packer) read(in io.Reader, position uint32, length int) error {
	for length > 0 {
		if len(p.room) == 0 {
			if err := p.grow(); err != nil {
				return err
			}
		}
		n := min(length, len(p.room))
		if _, err := io.ReadFull(in, p.room[:n]); err != nil {
			return err
		}
		p.segments = append(p.segments, segment{position: position, bytes: p.room[:n:n]})
		p.room, position, length = p.room[n:], position+uint32(n), length-n
		p.left -= int64(n)
	}
	return nil
}

// grow gets room for more: a chunk, or what the last bytes need.
func (p *packer) grow() error {
	n := min(p.left, chunkSize)
	if err := p.reserve(p.packed + n); err != nil {
		return err
	}
	p.packed += n
	if n < chunkSize {
		p.room = make([]byte, n)
		return nil
	}
	c := chunks.Get().(*[chunkSize]byte)
	p.taken, p.room = append(p.taken, c), c[:]
	return nil
}
