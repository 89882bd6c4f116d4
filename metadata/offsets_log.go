package metadata

import (
	"github.com/freshet-io/freshet/metadata/id"
)

// LoggedOffset is a committed offset with its place among all commits.
type LoggedOffset struct {
	Partition id.TopicPartition
	Topic     string // its name
	Offset
	Index    uint64 // of the log entry that committed it
	Position uint32 // of the command in the entry
	Pending  bool   // its transaction is open; only Index and Position are set besides
}

// LoggedOffsets calls yield with all offsets that a group has committed for partitions of topics that exist, by topic id,
// then number, and with those of open transactions, until it returns false.
func (s *machine) LoggedOffsets(group string, yield func(*LoggedOffset) bool) {
	g, ok := s.groups.Get(group)
	if !ok {
		return
	}
	g.topics.Scan(func(key string, t *topicOffsets) bool {
		name, ok := s.offsetTopic(key)
		if !ok {
			return true
		}
		more, topic := true, topicOfKey(key)
		t.offsets.Scan(func(n int32, o offset) bool {
			l := LoggedOffset{Partition: id.TopicPartition{Topic: topic, Partition: n}, Topic: name, Offset: t.view(n, o)}
			l.Index, l.Position = place(o.order)
			more = yield(&l)
			return more
		})
		if t.pending == nil || !more {
			return more
		}
		t.pending.Scan(func(_ int32, all []pendingOffset) bool {
			for i := range all {
				l := LoggedOffset{Pending: true}
				l.Index, l.Position = place(all[i].offset.order)
				if more = yield(&l); !more {
					return false
				}
			}
			return true
		})
		return more
	})
}

// place returns the entry and the command of an order (see machine.order).
func place(order uint64) (index uint64, position uint32) {
	return order >> orderBits, uint32(order & (1<<orderBits - 1))
}
