package metadata

import (
	"encoding/binary"
	"slices"

	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// maxForgottenRanges bounds the ranges of forgotten producer ids that a partition keeps, of 16 bytes each.
const maxForgottenRanges = 64

// idRange is producer ids from first to last.
type idRange struct{ first, last int64 }

// forget notes that a producer was forgotten here. Kafka takes a producer that it has forgotten at any sequence, which must
// not be done to one that was never here: its second batch would be taken before its first, and the first be refused for good.
// Ids are given in rising order, so those of short-lived producers are few ranges. Where they are too many, the two with the
// fewest ids between them become one.
func (p *partition) forget(producerID int64) {
	i, known := p.forgottenAt(producerID)
	if known {
		return
	}
	p.forgotten = slices.Insert(p.forgotten, i, idRange{producerID, producerID})
	if i+1 < len(p.forgotten) && p.forgotten[i+1].first-1 == producerID {
		p.joinForgotten(i)
	}
	if i > 0 && p.forgotten[i-1].last+1 == producerID {
		p.joinForgotten(i - 1)
	}
	if len(p.forgotten) <= maxForgottenRanges {
		return
	}
	nearest := 0
	between := func(i int) int64 { return p.forgotten[i+1].first - p.forgotten[i].last }
	for i := range len(p.forgotten) - 1 {
		if between(i) < between(nearest) {
			nearest = i
		}
	}
	p.joinForgotten(nearest)
}

// joinForgotten makes the i-th range and the next one a single range.
func (p *partition) joinForgotten(i int) {
	p.forgotten[i].last = p.forgotten[i+1].last
	p.forgotten = slices.Delete(p.forgotten, i+1, i+2)
}

// forgottenAt returns the range that has an id, or the place of one that would.
func (p *partition) forgottenAt(producerID int64) (i int, ok bool) {
	return slices.BinarySearchFunc(p.forgotten, producerID, func(r idRange, producerID int64) int {
		switch {
		case r.last < producerID:
			return -1
		case r.first > producerID:
			return 1
		}
		return 0
	})
}

func encodeForgotten(f *sectionWriter, ranges []idRange) {
	if len(ranges) == 0 {
		return
	}
	f.buf = append(f.buf, byte(recordForgotten))
	f.buf = binary.AppendUvarint(f.buf, uint64(len(ranges)))
	next := int64(0)
	for _, r := range ranges {
		f.buf = binary.AppendUvarint(f.buf, uint64(r.first-next))
		f.buf = binary.AppendUvarint(f.buf, uint64(r.last-r.first))
		next = r.last
	}
	f.recordDone()
}

func (d *snapshotDecoder) readForgotten(w *wire.Reader) {
	n := w.Count(2)
	if d.partition == nil || d.partition.forgotten != nil || n > maxForgottenRanges {
		w.Fail("%d ranges of forgotten producers", n)
		return
	}
	next := int64(0)
	for i := range n {
		gap, length := w.Offset(), w.Offset()
		r := idRange{first: next + gap}
		r.last = r.first + length
		if r.first < next || r.last < r.first || i > 0 && gap < 2 {
			w.Fail("forgotten producers from %d to %d", r.first, r.last)
		}
		if w.Err() != nil {
			return
		}
		d.partition.forgotten = append(d.partition.forgotten, r)
		next = r.last
	}
}
