package fetch

import (
	"sync"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// Bounds of read-ahead.
const (
	// firstAhead is how far a reader's second fetch in sequence reads ahead; it doubles with each further one.
	firstAhead = 8 << 20
	// maxStreams bounds the sequential readers that are remembered; beyond, some are forgotten.
	maxStreams = 50_000
)

// readAhead remembers who reads on where the last fetch ended, behind the live edge: where that is in an object, and how
// far it is worth reading ahead.
type readAhead struct {
	limit int64

	mu struct {
		sync.Mutex
		streams map[streamKey]place // after what the last answer brought
		depths  map[uint64]int64    // by reader, bytes
	}
}

type streamKey struct {
	reader    uint64
	partition id.TopicPartition
}

// place is where an offset's batch begins.
type place struct {
	offset   int64
	bundle   id.Bundle
	position uint32 // in the object; 0: not known
}

// in gives the position if it is one of the extent, for this offset; else 0.
func (p *place) in(e *extent.Extent, offset int64) uint32 {
	if p.bundle != e.Bundle || p.offset != offset {
		return 0
	}
	return p.position
}

func newReadAhead(limit int64) *readAhead {
	r := &readAhead{limit: limit}
	r.mu.streams, r.mu.depths = make(map[streamKey]place), make(map[uint64]int64)
	return r
}

// place gives where a fetch goes on that continues a sequence, and how far its reader reads ahead; zero values for others.
func (r *readAhead) place(reader uint64, p *Partition) (at place, depth int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.mu.streams[streamKey{reader: reader, partition: p.ID}]
	if ok && at.offset != p.Offset {
		return place{}, 0
	}
	return at, r.mu.depths[reader]
}

// note remembers where a fetch ended that brought something. A reader that goes on where it was in one partition is
// taken to do so in its others; one that does not begins anew.
func (r *readAhead) note(reader uint64, p *Partition, next place) {
	key := streamKey{reader: reader, partition: p.ID}
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.mu.streams[key]
	switch {
	case !ok:
		for old := range r.mu.streams {
			if len(r.mu.streams) < maxStreams {
				break
			}
			delete(r.mu.streams, old)
			delete(r.mu.depths, old.reader)
		}
	case at.offset == p.Offset:
		r.mu.depths[reader] = min(max(2*r.mu.depths[reader], firstAhead), r.limit)
	default:
		delete(r.mu.depths, reader)
	}
	r.mu.streams[key] = next
}

// ahead begins the reads of what this and the next fetches of partitions behind the live edge will bring, and notes
// which of them can be answered first.
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
				continue // it will be soon
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

// below are the planned extents that may be read.
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
