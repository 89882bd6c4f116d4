package peer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/freshet-io/freshet/agent/cache"
)

// answer writes the units out, each as soon as it is there.
func (s *Server) answer(ctx context.Context, w http.ResponseWriter, o *cache.Order) error {
	out := &paced{w: w, deadline: http.NewResponseController(w).SetWriteDeadline, each: s.cfg.WriteTimeout}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(w).Flush(); err != nil {
		return fmt.Errorf("send headers: %w", err)
	}
	s.cfg.Units.Prepare(o)
	for i, u := range o.Units {
		if err := s.send(ctx, out, o, i); err != nil {
			return fmt.Errorf("send unit %s: %w", unitName(u), err)
		}
	}
	return nil
}

// lendTimeout bounds the wait for a unit, from the object store perhaps, and for room among the unsent bytes.
const lendTimeout = 5 * time.Second

// send lends one unit and writes it out.
func (s *Server) send(ctx context.Context, out *paced, o *cache.Order, unit int) error {
	out.until = time.Time{}
	lendCtx, cancel := context.WithTimeout(ctx, lendTimeout)
	defer cancel()
	loan, err := s.cfg.Units.Lend(lendCtx, o, unit)
	if err != nil {
		return out.flushed(head{result: resultOf(err)}.encode())
	}
	defer loan.Release()
	room, unsent := min(loan.Size(), max(s.cfg.UnsentBytes/2, 1)), s.unsent.of(o.Class)
	if err := unsent.Acquire(lendCtx, room); err != nil {
		return out.flushed(head{result: resultFailed}.encode())
	}
	defer unsent.Release(room)
	out.until = time.Now().Add(2*s.cfg.WriteTimeout + time.Duration(loan.Size())*time.Second/leastRate)
	s.metrics.unsent.Add(float64(loan.Size()))
	defer s.metrics.unsent.Sub(float64(loan.Size()))
	if _, err := out.Write(head{partial: loan.Partial(), size: loan.Size()}.encode()); err != nil {
		return err
	}
	stretches := loan.Stretches()
	for i := range stretches {
		if err := s.sendStretch(out, &stretches[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) sendStretch(out *paced, stretch *cache.Stretch) error {
	if _, err := out.Write(encodeStretch(stretch.Position, stretch.Length)); err != nil {
		return err
	}
	n, err := stretch.WriteTo(out)
	s.metrics.bytes.Add(float64(n))
	return err
}

// resultOf is how an asker is told of an error.
func resultOf(err error) result {
	switch {
	case errors.Is(err, cache.ErrAbsent):
		return resultAbsent
	case errors.Is(err, cache.ErrGone):
		return resultGone
	case errors.Is(err, cache.ErrPending):
		return resultPending
	}
	return resultFailed
}

// paced writes to an asker that must take each write within a time. It must take a whole unit at leastRate, with two writes'
// time for its own waits: all askers share the unsent bytes, and one that takes a unit drop by drop keeps them from others.
type paced struct {
	w        http.ResponseWriter
	deadline func(time.Time) error
	each     time.Duration
	until    time.Time // end of the unit; zero if none was begun
}

// Write implements io.Writer.
func (p *paced) Write(b []byte) (int, error) {
	deadline := time.Now().Add(p.each)
	if !p.until.IsZero() && deadline.After(p.until) {
		deadline = p.until
	}
	if err := p.deadline(deadline); err != nil {
		return 0, fmt.Errorf("set write deadline: %w", err)
	}
	return p.w.Write(b)
}

// flushed writes what may be followed by a wait.
func (p *paced) flushed(b []byte) error {
	if _, err := p.Write(b); err != nil {
		return err
	}
	return http.NewResponseController(p.w).Flush()
}
