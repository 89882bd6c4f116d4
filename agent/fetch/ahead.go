package fetch

import (
	"container/list"
	"sync"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// Bounds of read-ahead.
const (
	// firstAhead is the read-ahead of a reader's second fetch in sequence. It doubles with each further fetch.
	firstAhead = 8 << 20
	// maxPlaces bounds the remembered places of all readers, about 12 MiB. At the bound the least recently noted place is
	// forgotten.
	maxPlaces = 50_000
)

// readAhead remembers where each reader's last fetch ended behind the live edge, by partition, and how far the reader reads
// ahead. A reader's places end with its connection.
type readAhead struct {
	limit  int64 // of a reader's depth, bytes
	places int   // bound of places

	mu struct {
		sync.Mutex
		readers map[uint64]*sequence
		order   list.List // of *streamPlace, the least recently noted first
	}
}

// sequence is the state of one reader. It stays, without places, until the reader leaves.
type sequence struct {
	depth  int64 // bytes
	places map[id.TopicPartition]*list.Element
}

// streamPlace is the place where a reader's last fetch of a partition ended.
type streamPlace struct {
	reader    *sequence
	partition id.TopicPartition
	place
}

// place is where an offset's batch begins.
type place struct {
	offset   int64
	bundle   id.Bundle
	position uint32 // in the object; 0 if unknown
}

// in returns the position if the place is in the extent and belongs to this offset, else 0.
func (p *place) in(e *extent.Extent, offset int64) uint32 {
	if p.bundle != e.Bundle || p.offset != offset {
		return 0
	}
	return p.position
}

func newReadAhead(limit int64) *readAhead {
	r := &readAhead{limit: limit, places: maxPlaces}
	r.mu.readers = make(map[uint64]*sequence)
	return r
}

// place returns the place where a fetch that continues a sequence begins, and its reader's depth. It returns zero values for
// other fetches.
func (r *readAhead) place(reader uint64, p *Partition) (at place, depth int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.mu.readers[reader]
	if s == nil {
		return place{}, 0
	}
	if e := s.places[p.ID]; e != nil {
		at = e.Value.(*streamPlace).place
		if at.offset != p.Offset {
			return place{}, 0
		}
	}
	return at, s.depth
}

// note remembers the place where a fetch that brought records ended. A reader that continues in one partition is taken to
// continue in all, and a seek starts its depth again. first reports whether the reader is new: leave must be called at the
// end of its connection.
func (r *readAhead) note(reader uint64, p *Partition, next place) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.mu.readers[reader]
	if first = s == nil; first {
		s = &sequence{places: make(map[id.TopicPartition]*list.Element)}
		r.mu.readers[reader] = s
	}
	e := s.places[p.ID]
	if e == nil {
		if r.mu.order.Len() >= r.places {
			r.forget(r.mu.order.Front())
		}
		s.places[p.ID] = r.mu.order.PushBack(&streamPlace{reader: s, partition: p.ID, place: next})
		return first
	}
	at := e.Value.(*streamPlace)
	if at.offset == p.Offset {
		s.depth = min(max(2*s.depth, firstAhead), r.limit)
	} else {
		s.depth = 0
	}
	at.place = next
	r.mu.order.MoveToBack(e)
	return first
}

// count returns the number of places.
func (r *readAhead) count() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return float64(r.mu.order.Len())
}

// forget removes a place. Called with mu held.
func (r *readAhead) forget(e *list.Element) {
	at := r.mu.order.Remove(e).(*streamPlace)
	delete(at.reader.places, at.partition)
	if len(at.reader.places) == 0 {
		at.reader.depth = 0
	}
}

// leave removes a reader and its places.
func (r *readAhead) leave(reader uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.mu.readers[reader]; s != nil {
		for _, e := range s.places {
			r.mu.order.Remove(e)
		}
		delete(r.mu.readers, reader)
	}
}

// ahead begins the reads for this fetch and the next ones of partitions behind the live edge, and notes how soon each
// partition's bytes will be in memory.
func (a *attempt) ahead(readers []reader) {
	var nexts []cache.Next
	var of []*reader
	for i := range readers {
		r := &readers[i]
		if r.class != cache.CatchUp {
			continue
		}
		var depth int64
		r.at, depth = a.f.ahead.place(a.req.Reader, r.partition)
		exts := r.below()
		position := r.at.in(&exts[0], r.partition.Offset)
		if exts[0].Kind == extent.Absolute && position == 0 {
			var known bool
			position, known = a.f.cfg.Bytes.Locate(cache.Part{
				Extent: &exts[0], Offset: r.partition.Offset, Reader: a.req.Reader,
			})
			if !known {
				continue // Locate began a read of the seek table
			}
		}
		wanted := int64(min(a.req.MinBytes, r.partition.MaxBytes)) // in small objects, many GETs
		r.next = cache.Next{Extents: exts, Position: position, Bytes: max(depth, min(wanted, a.f.ahead.limit), 1)}
		nexts, of = append(nexts, r.next), append(of, r)
	}
	if len(nexts) == 0 {
		return
	}
	for i, state := range a.f.cfg.Bytes.Ahead(a.req.Reader, nexts) {
		of[i].state = state
	}
}

// below returns the planned extents that may be read.
func (r *reader) below() []extent.Extent { return below(r.plan) }

func below(plan *view.Plan) []extent.Extent {
	exts := plan.Extents
	for n := range exts {
		if exts[n].Base >= plan.End {
			return exts[:n]
		}
	}
	return exts
}
