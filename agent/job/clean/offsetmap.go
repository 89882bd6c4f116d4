package clean

import (
	"encoding/binary"
	"math/bits"
)

// digest stands for a key: the first 16 bytes of its SHA-256, so that nobody can make two keys share one. (Kafka's
// SkimpyOffsetMap takes MD5.)
type digest [16]byte

// slotBytes is what one slot of the map takes.
const slotBytes = 24

// loadFactor is the share of slots in use at which the map is full: three quarters.
const loadNumerator, loadDenominator = 3, 4

// offsetMap notes the last offset of each key, in memory of a fixed size, by open addressing.
type offsetMap struct {
	slots []slot
	used  int
	limit int
}

type slot struct {
	key  digest
	next int64 // offset + 1; 0 is an empty slot
}

// newOffsetMap gives a map for as many keys, or fewer if they would take more than maxBytes. It takes at least one.
func newOffsetMap(keys, maxBytes int64) *offsetMap {
	wanted := maxBytes / slotBytes
	if keys < wanted { // keeps the product below from overflowing
		wanted = min(wanted, keys*loadDenominator/loadNumerator+2)
	}
	m := &offsetMap{slots: make([]slot, max(wanted, 2))}
	m.limit = max(len(m.slots)*loadNumerator/loadDenominator, 1)
	return m
}

// put notes a record's offset; offsets ascend. It returns false if the key is new and there is no room for it.
func (m *offsetMap) put(key digest, offset int64) bool {
	s := m.find(key)
	if s.next == 0 {
		if m.used >= m.limit {
			return false
		}
		m.used++
		s.key = key
	}
	s.next = offset + 1
	return true
}

// last gives the last offset noted for the key, -1 if there is none.
func (m *offsetMap) last(key digest) int64 { return m.find(key).next - 1 }

// find gives the key's slot, or the empty one where it would be. There always is one: the map is never filled whole.
func (m *offsetMap) find(key digest) *slot {
	n := uint64(len(m.slots))
	i, _ := bits.Mul64(binary.BigEndian.Uint64(key[:8]), n)
	for {
		s := &m.slots[i]
		if s.next == 0 || s.key == key {
			return s
		}
		if i++; i == n {
			i = 0
		}
	}
}
