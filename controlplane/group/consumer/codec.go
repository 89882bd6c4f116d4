package consumer

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/freshet-io/freshet/controlplane/group/classic"
	"github.com/freshet-io/freshet/metadata/id"
)

// Versions of the head and of a member's value.
const (
	headVersion   = 1
	memberVersion = 1
)

func (g *Group) encodeHead() []byte {
	dst := []byte{headVersion}
	dst = binary.AppendUvarint(dst, uint64(uint32(g.epoch)))
	dst = binary.AppendUvarint(dst, uint64(uint32(g.assignmentEpoch)))
	dst = binary.AppendVarint(dst, g.assignedMs)
	return binary.BigEndian.AppendUint64(dst, uint64(g.digest))
}

func (g *Group) readHead(b []byte) error {
	r := reader{b: b}
	r.version(headVersion)
	g.epoch, g.assignmentEpoch = r.int32(), r.int32()
	g.assignedMs = r.varint()
	if d := r.take(8); d != nil {
		g.digest = digest(binary.BigEndian.Uint64(d))
	}
	return r.done()
}

func encodeMember(m *member) []byte {
	dst := []byte{memberVersion}
	dst = appendString(dst, m.instance)
	dst = appendString(dst, m.rack)
	dst = appendString(dst, m.clientID)
	dst = appendString(dst, m.clientHost)
	dst = binary.AppendVarint(dst, int64(m.rebalanceMs))
	dst = binary.AppendUvarint(dst, uint64(len(m.topics)))
	for _, name := range m.topics {
		dst = appendString(dst, name)
	}
	dst = appendString(dst, m.regex)
	dst = appendString(dst, m.assignor)
	dst = appendClassic(dst, m.classic)
	dst = binary.AppendVarint(dst, int64(m.epoch))
	dst = binary.AppendVarint(dst, int64(m.previous))
	dst = append(dst, byte(m.state))
	dst = appendEpochs(dst, m.assigned)
	dst = appendEpochs(dst, m.revoking)
	if slices.Equal(m.target, m.assigned.sorted()) {
		return append(dst, 1)
	}
	return appendPartitions(append(dst, 0), m.target, nil)
}

func appendClassic(dst []byte, c *classicMember) []byte {
	if c == nil {
		return append(dst, 0)
	}
	dst = binary.AppendVarint(append(dst, 1), int64(c.sessionMs))
	dst = binary.AppendUvarint(dst, uint64(len(c.protocols)))
	for _, p := range c.protocols {
		dst = appendString(dst, p.Name)
		dst = appendString(dst, string(p.Metadata))
	}
	return dst
}

func appendEpochs(dst []byte, set epochs) []byte { return appendPartitions(dst, set.sorted(), set) }

// appendPartitions writes partitions, which are in ascending order, with their epochs if there is a set of them.
func appendPartitions(dst []byte, partitions []id.TopicPartition, set epochs) []byte {
	topics := 0
	byTopic(partitions, func(id.Topic, []int32) { topics++ })
	dst = binary.AppendUvarint(dst, uint64(topics))
	byTopic(partitions, func(t id.Topic, numbers []int32) {
		dst = append(dst, t[:]...)
		dst = binary.AppendUvarint(dst, uint64(len(numbers)))
		next := int32(0)
		for _, n := range numbers {
			dst = binary.AppendUvarint(dst, uint64(n-next))
			next = n + 1
			if set != nil {
				dst = binary.AppendUvarint(dst, uint64(uint32(set[id.TopicPartition{Topic: t, Partition: n}])))
			}
		}
	})
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func readMember(name string, b []byte) (*member, error) {
	r := reader{b: b}
	m := newMember(name)
	r.version(memberVersion)
	m.instance, m.rack, m.clientID, m.clientHost = r.string(), r.string(), r.string(), r.string()
	m.rebalanceMs = r.signed()
	for range r.count(1) {
		m.topics = append(m.topics, r.string())
	}
	if !slices.IsSorted(m.topics) || len(slices.Compact(slices.Clone(m.topics))) != len(m.topics) {
		r.fail("topics out of order")
	}
	m.regex, m.assignor = r.string(), r.string()
	m.classic = r.classic()
	m.epoch, m.previous = r.signed(), r.signed()
	if m.state = memberState(r.byte()); m.state > unreleased {
		r.fail("state %d", m.state)
	}
	m.assigned, m.revoking = r.epochs(), r.epochs()
	if r.flag() {
		m.target = m.assigned.sorted()
	} else if m.target = r.partitions(nil); r.err == nil && slices.Equal(m.target, m.assigned.sorted()) {
		r.fail("target spelled out")
	}
	return m, r.done()
}

// reader takes a value apart and remembers its first failure; after it, it gives zeroes. Every count is bounded by the
// bytes that are left.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
	r.b = nil
}

func (r *reader) done() error {
	if len(r.b) > 0 {
		r.fail("%d bytes too many", len(r.b))
	}
	return r.err
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.fail("too short")
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) version(want byte) {
	if v := r.byte(); v != want {
		r.fail("version %d", v)
	}
}

func (r *reader) flag() bool {
	v := r.byte()
	if v > 1 {
		r.fail("flag %d", v)
	}
	return v == 1
}

func (r *reader) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > limit || n > 1 && r.b[n-1] == 0 {
		r.fail("number out of bounds")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int32() int32 { return int32(r.uvarint(math.MaxInt32)) }

func (r *reader) varint() int64 {
	v := r.uvarint(math.MaxUint64)
	return int64(v>>1) ^ -int64(v&1)
}

func (r *reader) signed() int32 {
	v := r.varint()
	if v != int64(int32(v)) {
		r.fail("number out of bounds")
		return 0
	}
	return int32(v)
}

// count reads how many things of at least size bytes follow.
func (r *reader) count(size int) int { return int(r.uvarint(uint64(len(r.b) / size))) }

func (r *reader) string() string { return string(r.take(r.count(1))) }

func (r *reader) classic() *classicMember {
	if !r.flag() {
		return nil
	}
	c := &classicMember{sessionMs: r.signed()}
	n := r.count(2)
	if n == 0 {
		r.fail("no protocol")
	}
	for range n {
		c.protocols = append(c.protocols, classic.Protocol{Name: r.string(), Metadata: []byte(r.string())})
	}
	return c
}

func (r *reader) epochs() epochs {
	set := make(epochs)
	r.partitions(set)
	return set
}

// partitions reads what appendPartitions wrote, and the epochs into set if there is one.
func (r *reader) partitions(set epochs) []id.TopicPartition {
	var out []id.TopicPartition
	var last id.Topic
	for i := range r.count(len(last) + 2) {
		var p id.TopicPartition
		copy(p.Topic[:], r.take(len(p.Topic)))
		if i > 0 && (id.TopicPartition{Topic: last}).Compare(p) >= 0 {
			r.fail("topics out of order")
		}
		last = p.Topic
		n := r.count(1)
		if n == 0 {
			r.fail("topic without partitions")
		}
		for range n {
			p.Partition += int32(r.uvarint(uint64(math.MaxInt32 - 1 - p.Partition)))
			if set != nil {
				set[p] = r.int32()
			}
			out = append(out, p)
			p.Partition++
		}
		if r.err != nil {
			return nil
		}
	}
	return out
}

// Restore makes the group of what its writes stored, at a new owner: every member has a full session time-out from now,
// and one that is to revoke partitions its full rebalance time-out. Errors wrap ErrMalformed.
// (GroupMetadataManager.onLoaded)
func Restore(group string, cfg Config, now time.Time, head []byte, members iter.Seq2[string, []byte]) (*Group, error) {
	g := New(group, cfg)
	if err := g.readHead(head); err != nil {
		return nil, fmt.Errorf("group %q: %w", group, err)
	}
	for name, value := range members {
		m, err := readMember(name, value)
		if err != nil {
			return nil, fmt.Errorf("group %q, member %q: %w", group, name, err)
		}
		g.put(nil, m)
		m.timers.session = now.Add(g.cfg.SessionTimeout)
		if m.state == unrevoked && m.classic == nil {
			m.timers.rebalance, m.timers.atEpoch = now.Add(m.rebalanceTimeout()), m.epoch
		}
		g.arm(m)
	}
	g.enterBudget()
	return g, nil
}
