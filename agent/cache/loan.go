package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
)

var (
	// ErrAbsent: the unit is not in memory.
	ErrAbsent = errors.New("unit is not in memory")
	// ErrPending is returned for a unit of a bundle that this agent's writer is still handing over to the cache.
	ErrPending = errors.New("unit is not in memory yet")
)

// Loan is a unit lent to be sent to another agent. It is given back by Release.
type Loan struct {
	u    *unit
	size int64
	runs []Stretch
}

// Stretch is bytes that adjoin in the object.
type Stretch struct {
	Position uint32 // of the first one in the object
	Length   uint32
	lent     *unit
	pieces   pieces
}

// Order is what another agent asks for.
type Order struct {
	Ask
	Read bool   // from the object store, what is not in memory; never from a third agent: nobody waits in a ring
	By   uint64 // a number for the agent, other than those of readers
}

// Prepare begins to read an order's units that are not in memory, by one GET where they adjoin.
func (c *Cache) Prepare(o *Order) {
	if !o.Read || len(o.Units) == 1 {
		return // Lend will do
	}
	var absent []unitKey
	for i := range o.Units {
		if key := o.key(i); !c.store.has(key) {
			absent = append(absent, key)
		}
	}
	c.takeOff(absent, account{o.Class, o.By}, true, 0)
}

// Lend gives a unit of an order, by its index. Errors: ErrAbsent, ErrGone, ErrClosed, the context's, the last one of
// the object store.
func (c *Cache) Lend(ctx context.Context, o *Order, unit int) (*Loan, error) {
	key := o.key(unit)
	if u := c.store.get(key); u != nil {
		return newLoan(u), nil
	}
	if !o.Read {
		return nil, fmt.Errorf("bundle %s: %w", o.Bundle, ErrAbsent)
	}
	u, err := c.join([]unitKey{key}, account{o.Class, o.By}, true)[0].wait(ctx, c)
	if err != nil {
		return nil, err
	}
	return newLoan(u), nil
}

func (o *Order) key(unit int) unitKey {
	return unitKey{bundle: o.Bundle, first: o.Units[unit].First, part: o.Units[unit].Part}
}

func newLoan(u *unit) *Loan {
	l := &Loan{u: u}
	if u.own != nil {
		u.own.Pieces(l.add)
		return l
	}
	for _, s := range u.segments {
		l.add(s.position, s.bytes)
	}
	return l
}

func (l *Loan) add(position uint32, bytes []byte) {
	l.size += int64(len(bytes))
	if n := len(l.runs); n > 0 && l.runs[n-1].Position+l.runs[n-1].Length == position {
		last := &l.runs[n-1]
		last.Length += uint32(len(bytes))
		last.pieces = append(last.pieces, bytes)
		return
	}
	l.runs = append(l.runs, Stretch{Position: position, Length: uint32(len(bytes)), lent: l.u, pieces: pieces{bytes}})
}

// Size is the number of bytes.
func (l *Loan) Size() int64 { return l.size }

// Partial tells whether some of the object's bytes are left out: a writer keeps accepted batches alone.
func (l *Loan) Partial() bool { return l.u.partial() }

// Stretches are the unit's bytes in the order of positions, valid until Release.
func (l *Loan) Stretches() []Stretch { return l.runs }

// Release ends the loan, once.
func (l *Loan) Release() { l.u.release() }

// WriteTo writes the stretch out. Bytes that the writer patched do not change any more and are written from where they
// are. Others are copied, a chunk at a time under the unit's lock: their first reader here may be patching them.
func (s *Stretch) WriteTo(w io.Writer) (int64, error) {
	if s.lent.own != nil {
		return s.pieces.writeTo(w)
	}
	scratch := chunks.Get().(*[chunkSize]byte)
	defer chunks.Put(scratch)
	written := int64(0)
	for _, p := range s.pieces {
		for len(p) > 0 {
			s.lent.mu.Lock()
			n := copy(scratch[:], p)
			s.lent.mu.Unlock()
			m, err := w.Write(scratch[:n])
			written += int64(m)
			if err != nil {
				return written, err
			}
			p = p[n:]
		}
	}
	return written, nil
}

func (p pieces) writeTo(w io.Writer) (written int64, err error) {
	for _, b := range p {
		n, err := w.Write(b)
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
