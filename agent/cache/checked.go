package cache

import (
	"sort"

	"github.com/freshet-io/freshet/metadata/extent"
)

// markEvery is the least distance of the batches whose offsets a unit remembers, bytes.
const markEvery = 64 << 10

// mark is a batch's place in an object.
type mark struct {
	position uint32
	base     int64 // first offset
}

// stretch is adjoining batches, [from, to) in the object.
type stretch struct{ from, to uint32 }

// checked tells whether the batch of size bytes at position has been verified. The unit's lock is held.
func (u *unit) checked(position uint32, size int) bool {
	i := sort.Search(len(u.mu.checked), func(i int) bool { return u.mu.checked[i].to > position })
	return i < len(u.mu.checked) && u.mu.checked[i].from <= position &&
		uint64(position)+uint64(size) <= uint64(u.mu.checked[i].to)
}

// note remembers a verified batch, of an extent that begins at begin. The unit's lock is held.
func (u *unit) note(begin, position uint32, b batch) {
	s := stretch{position, position + uint32(b.size)}
	list := u.mu.checked
	i := sort.Search(len(list), func(i int) bool { return list[i].from >= s.from })
	joinsLast, joinsNext := i > 0 && list[i-1].to == s.from, i < len(list) && list[i].from == s.to
	switch {
	case joinsLast && joinsNext:
		list[i-1].to = list[i].to
		list = append(list[:i], list[i+1:]...)
	case joinsLast:
		list[i-1].to = s.to
	case joinsNext:
		list[i].from = s.from
	default:
		list = append(list, stretch{})
		copy(list[i+1:], list[i:])
		list[i] = s
	}
	u.mu.checked = list
	u.remember(begin, mark{position, b.base})
}

// remember keeps a batch's place where none is known nearby before it in its extent.
func (u *unit) remember(begin uint32, m mark) {
	list := u.mu.marks
	i := sort.Search(len(list), func(i int) bool { return list[i].position > m.position })
	if i > 0 && list[i-1].position >= begin && m.position-list[i-1].position < markEvery {
		return
	}
	list = append(list, mark{})
	copy(list[i+1:], list[i:])
	list[i] = m
	u.mu.marks = list
}

// mark gives the last place remembered of an extent at or before an offset; 0 if there is none.
func (u *unit) mark(e *extent.Extent, offset int64) uint32 {
	u.mu.Lock()
	defer u.mu.Unlock()
	end := uint64(e.Position) + uint64(e.Length)
	list := u.mu.marks
	from := sort.Search(len(list), func(i int) bool { return list[i].position >= e.Position })
	list = list[from:]
	to := sort.Search(len(list), func(i int) bool { return uint64(list[i].position) >= end || list[i].base > offset })
	if to == 0 {
		return 0
	}
	return list[to-1].position
}
