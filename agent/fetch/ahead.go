package fetch

import (
	"sync"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// Bounds of read-ahead.
const (
	// firstAhead is how far a reader's second fetch in sequence reads ahead; it doubles with each further one.
	firstAhead = 4 << 20
	// maxStreams bounds the sequential readers that are remembered; beyond, some are forgotten.
	maxStreams = 50_000
)

// readAhead remembers who reads on where the last fetch ended, behind the live edge: where that is in an object, and how
// far it is worth reading ahead.
type readAhead struct {
	limit int64

	mu struct {
		sync.Mutex
		streams map[streamKey]stream
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

type stream struct {
	next  place // after what the last answer brought
	depth int64 // bytes
}

func newReadAhead(limit int64) *readAhead {
	r := &readAhead{limit: limit}
	r.mu.streams = make(map[streamKey]stream)
	return r
}

// place gives where a fetch goes on that continues a sequence, and how far to read ahead of it; zero values for others.
func (r *readAhead) place(reader uint64, p *Partition) (at place, depth int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.mu.streams[streamKey{reader: reader, partition: p.ID}]
	if !ok || s.next.offset != p.Offset {
		return place{}, 0
	}
	return s.next, s.depth
}

// note remembers where a fetch ended that brought something.
func (r *readAhead) note(reader uint64, p *Partition, next place) {
	key := streamKey{reader: reader, partition: p.ID}
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.mu.streams[key]
	switch {
	case !ok && len(r.mu.streams) >= maxStreams:
		for old := range r.mu.streams {
			delete(r.mu.streams, old)
			break
		}
	case ok && s.next.offset == p.Offset:
		s.depth = min(max(2*s.depth, firstAhead), r.limit)
	default:
		s.depth = 0
	}
	s.next = next
	r.mu.streams[key] = s
}

// ahead begins the reads of what this and the next fetches of partitions behind the live edge will bring, and notes
// which of them can be answered first.
func (a *attempt) ahead(readers []*reader) {
	var nexts []cache.Next
	var of []*reader
	for _, r := range readers {
		if r.class != cache.CatchUp {
			continue
		}
		var depth int64
		r.at, depth = a.f.ahead.place(a.req.Reader, r.partition)
		exts := r.below()
		position := r.at.in(&exts[0], r.partition.Offset)
		if exts[0].Kind == extent.Absolute && position == 0 && r.partition.Offset > exts[0].Base && exts[0].Length > cache.PartUnit {
			continue // where it is in the extent will be known once it was read
		}
		nexts = append(nexts, cache.Next{Extents: exts, Position: position, Bytes: max(depth, 1)})
		of = append(of, r)
	}
	if len(nexts) == 0 {
		return
	}
	for i, state := range a.f.cfg.Bytes.Ahead(a.req.Reader, nexts) {
		of[i].state = state
	}
}

// below are the planned extents that may be read.
func (r *reader) below() []extent.Extent {
	exts := r.plan.Extents
	for n := range exts {
		if exts[n].Base >= r.plan.End {
			return exts[:n]
		}
	}
	return exts
}
