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
	maxStreams = 10_000
)

// readAhead remembers who reads on where the last fetch ended, behind the live edge, and begins the reads that will
// follow.
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

type stream struct {
	next  int64 // offset after the extents of the last answer
	depth int64 // bytes
}

func newReadAhead(limit int64) *readAhead {
	r := &readAhead{limit: limit}
	r.mu.streams = make(map[streamKey]stream)
	return r
}

// extend notes that the reader's answer came from extents below next, and starts what follows.
func (r *readAhead) extend(reader uint64, p *Partition, following []extent.Extent, next int64, bytes Bytes) {
	depth := r.depth(streamKey{reader: reader, partition: p.ID}, p.Offset, next)
	for i := range following {
		if depth <= 0 {
			return
		}
		depth -= int64(following[i].Length)
		if following[i].Kind != extent.Marker {
			bytes.Start(&following[i], cache.CatchUp)
		}
	}
}

// depth is how far to read ahead of a fetch from offset.
func (r *readAhead) depth(key streamKey, offset, next int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.mu.streams[key]
	switch {
	case !ok && len(r.mu.streams) >= maxStreams:
		for old := range r.mu.streams {
			delete(r.mu.streams, old)
			break
		}
		s = stream{}
	case ok && offset <= s.next && s.next <= next:
		s.depth = min(max(2*s.depth, firstAhead), r.limit)
	default:
		s.depth = 0
	}
	s.next = next
	r.mu.streams[key] = s
	return s.depth
}
