package slab

// state says who accounts for a slab.
type state uint8

const (
	lent        state = iota // within the pool's budget
	transferred              // its owner accounts for it
	released                 // nobody owns it
)

// Slab is one stretch of memory that fills from the front. It has one owner, who alone calls its methods.
type Slab struct {
	pool  *Pool
	buf   []byte
	state state
}

// Room is how many bytes fit in still.
func (s *Slab) Room() int { return cap(s.buf) - len(s.buf) }

// Cap is the slab's capacity, which is what it is accounted with.
func (s *Slab) Cap() int { return cap(s.buf) }

// Append copies p to the slab's end and gives the copy. Its capacity is the rest of the slab, by which readers see that
// neighbours lie in one allocation; nobody appends to it. p must fit (Room).
func (s *Slab) Append(p []byte) []byte {
	at := len(s.buf)
	if len(p) > cap(s.buf)-at {
		panic("slab: append beyond the slab's end")
	}
	s.buf = append(s.buf, p...)
	return s.buf[at:len(s.buf)]
}

// Transfer takes the slab out of the pool's budget: its owner accounts for it from now on. Repeating it has no effect.
func (s *Slab) Transfer() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.state != lent {
		return
	}
	s.state = transferred
	s.pool.mu.held -= int64(cap(s.buf))
	s.pool.serve()
	s.pool.metrics.held.Set(float64(s.pool.mu.held))
}

// Release gives the memory back: nobody reads or writes it any more. Releasing twice is a fault of the caller.
func (s *Slab) Release() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.state == released {
		panic("slab: released twice")
	}
	s.pool.takeBack(s)
	s.pool.serve()
}
