package replica

import (
	"fmt"
	"sync"

	"github.com/freshet-io/freshet/metadata"
)

// checker compares a follower's state with the owner's at the entries that the owner marked for snapshots. Hashing
// walks over everything, so it is done in the background, on the snapshot taken at the mark.
type checker struct {
	failed chan error // holds the first mismatch
	hash   func(*metadata.State) uint64
	hashes sync.WaitGroup
	slots  chan struct{} // held by those under way, at most maxMarks

	mu    sync.Mutex
	marks map[uint64]*mark // by index, at most maxMarks; guarded by mu
}

// maxMarks bounds the snapshots held, and those hashed at a time: an owner that fails to take snapshots marks again and again.
const maxMarks = 2

type mark struct {
	hash, want   uint64
	known, asked bool // hash, want are set
}

func newChecker() *checker {
	return &checker{
		failed: make(chan error, 1), hash: (*metadata.State).Hash, slots: make(chan struct{}, maxMarks), marks: map[uint64]*mark{},
	}
}

// mark begins to hash the state after entry index. While too many are being hashed the mark is passed over.
func (c *checker) mark(index uint64, s *metadata.State) {
	select {
	case c.slots <- struct{}{}:
	default:
		return
	}
	m := c.add(index, &mark{})
	c.hashes.Go(func() {
		defer func() { <-c.slots }()
		hash := c.hash(s)
		c.mu.Lock()
		defer c.mu.Unlock()
		m.hash, m.known = hash, true
		c.compare(index, m)
	})
}

// loaded notes the hash of a snapshot that the state was read from.
func (c *checker) loaded(index, hash uint64) { c.add(index, &mark{hash: hash, known: true}) }

func (c *checker) add(index uint64, m *mark) *mark {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks[index] = m
	for len(c.marks) > maxMarks {
		oldest := index
		for i := range c.marks {
			oldest = min(oldest, i)
		}
		delete(c.marks, oldest)
	}
	return m
}

// check takes what the owner asserts. A mark that this replica was not there for is not compared.
func (c *checker) check(a metadata.CheckHash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.marks[a.Index]; m != nil {
		m.want, m.asked = a.Hash, true
		c.compare(a.Index, m)
	}
}

// compare is called with mu held.
func (c *checker) compare(index uint64, m *mark) {
	if !m.known || !m.asked {
		return
	}
	delete(c.marks, index)
	if m.hash == m.want {
		return
	}
	select {
	case c.failed <- fmt.Errorf("%w: after entry %d the hash is %016x, the owner's %016x", ErrHashMismatch, index, m.hash, m.want):
	default:
	}
}

// wait waits for hashing to end.
func (c *checker) wait() { c.hashes.Wait() }
