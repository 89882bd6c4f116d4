package cache

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/freshet-io/freshet/metadata/id"
)

// ErrAbsent: the unit is not in memory.
var ErrAbsent = errors.New("unit is not in memory")

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

// Lend gives a unit. One that is not in memory is read from the object store if read says so, never from another
// agent, so that agents do not wait for each other in a ring. Errors: ErrAbsent, ErrGone, ErrClosed, the context's, the
// last one of the object store.
func (c *Cache) Lend(ctx context.Context, bundle id.Bundle, unit Unit, class Class, read bool) (*Loan, error) {
	key := unitKey{bundle: bundle, first: unit.First, part: unit.Part}
	if u := c.store.get(key); u != nil {
		return newLoan(u), nil
	}
	if !read {
		return nil, fmt.Errorf("bundle %s: %w", bundle, ErrAbsent)
	}
	u, err := c.join([]unitKey{key}, account{class: class}, true)[0].wait(ctx, c)
	if err != nil {
		return nil, err
	}
	return newLoan(u), nil
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
