package metadata

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// LimitKind is the kind of a limit of a state. Its numbers are part of the log's format.
type LimitKind uint8

// The kinds of limits. They are known from version 2 of the state on. A new kind needs a new version.
const (
	// LimitTopics counts topics, with deleted ones that can be undeleted.
	LimitTopics LimitKind = iota
	// LimitPartitions counts the partitions of these topics.
	LimitPartitions
	// LimitGroups counts groups with members or offsets.
	LimitGroups
	// LimitGroupMembers counts the members of one group. Coordinators refuse members, Apply does not.
	LimitGroupMembers
	// LimitTransactionalIDs counts transactional IDs. Each is kept for seven days after its last transaction.
	LimitTransactionalIDs
	// LimitOffsetBytes is the estimated memory of committed and pending offsets, with their metadata.
	LimitOffsetBytes
	// LimitTextBytes is the length of configs, and of the names of topics, groups and transactional IDs.
	LimitTextBytes

	limitKinds
)

var limitNames = [limitKinds]string{
	"topics", "partitions", "groups", "group-members", "transactional-ids", "offset-bytes", "text-bytes",
}

func (k LimitKind) String() string { return limitNames[k] }

// Setting returns the control plane's setting of the limit.
func (k LimitKind) Setting() string { return "--max-" + k.String() }

// Limits are the limits of a state by LimitKind. 0 is no limit.
type Limits [limitKinds]int64

// LimitError is returned for a command that would exceed a limit. The command has no effect.
type LimitError struct {
	Kind  LimitKind
	Limit int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the virtual cluster is at its limit of %d %s: delete some, or have the operator raise %s of every control plane or of `freshet ctl cluster limit`",
		e.Limit, strings.ReplaceAll(e.Kind.String(), "-", " "), e.Kind.Setting())
}

// SetLimits sets the limits of the state. The owner proposes it from its configuration, so every replica refuses the same commands. A
// state above a new limit keeps what it has. Result: nil or ErrInvalidCount.
type SetLimits struct{ Limits Limits }

func (c *SetLimits) appendBody(dst []byte) []byte {
	for _, limit := range c.Limits {
		dst = binary.AppendUvarint(dst, uint64(limit))
	}
	return dst
}

func (c *SetLimits) readBody(w *wire.Reader) {
	for kind := range c.Limits {
		c.Limits[kind] = w.Offset()
	}
}

func (s *machine) setLimits(c *SetLimits, _ *Effects) error {
	for _, limit := range c.Limits {
		if limit < 0 {
			return ErrInvalidCount
		}
	}
	s.limits = c.Limits
	return nil
}

// Limits returns the limits of the state, and how much of each is used. It takes constant time. The use of LimitGroupMembers is 0, since
// that limit holds for each group.
func (s *machine) Limits() (limits, used Limits) {
	for kind := range used {
		used[kind] = s.used(LimitKind(kind))
	}
	return s.limits, used
}

func (s *machine) used(kind LimitKind) int64 {
	switch kind {
	case LimitTopics:
		return int64(s.topics.Len())
	case LimitPartitions:
		return s.load.Partitions + s.load.Empty
	case LimitGroups:
		return int64(s.groups.Len())
	case LimitTransactionalIDs:
		return int64(s.transactions.byProducer.Len())
	case LimitOffsetBytes:
		return s.load.offsets
	case LimitTextBytes:
		return s.load.text + s.transactions.text
	default:
		return 0
	}
}

// allows returns a *LimitError if growth by n would exceed a limit. Without growth, a state above the limit passes.
func (s *machine) allows(kind LimitKind, n int64) error {
	limit := s.limits[kind]
	if n <= 0 || limit == 0 || s.used(kind)+n <= limit {
		return nil
	}
	return &LimitError{kind, limit}
}

// allowsTopic checks the limits for a new topic.
func (s *machine) allowsTopic(t *Topic) error {
	if err := s.allows(LimitTopics, 1); err != nil {
		return err
	}
	if err := s.allows(LimitPartitions, int64(t.Partitions)); err != nil {
		return err
	}
	return s.allows(LimitTextBytes, t.text())
}

// allowsGroup checks the limits for a group that a command may create.
func (s *machine) allowsGroup(name string) error {
	if _, ok := s.groups.Get(name); ok {
		return nil
	}
	if err := s.allows(LimitGroups, 1); err != nil {
		return err
	}
	return s.allows(LimitTextBytes, int64(len(name)))
}

// AllowsTransaction returns a *LimitError if InitTransaction would be refused for a new transactional ID. A refused command takes room in the
// log, so it is better not proposed.
func (s *machine) AllowsTransaction(transactionalID string) error {
	if s.transaction(transactionalID) != nil {
		return nil
	}
	return s.allowsTransaction(transactionalID)
}

// allowsTransaction checks the limits for a new transactional ID.
func (s *machine) allowsTransaction(name string) error {
	if err := s.allows(LimitTransactionalIDs, 1); err != nil {
		return err
	}
	return s.allows(LimitTextBytes, int64(len(name)))
}

// allowsCommit checks the limits for offsets of a group: one of a plain commit, or all of a transaction's commit. A pending offset counts
// as the committed offset that it becomes. So a transaction can go on to commit offsets of the same partitions in a state at its limit.
func (s *machine) allowsCommit(group string, offsets []OffsetCommit) error {
	if s.limits == (Limits{}) || len(offsets) == 0 {
		return nil
	}
	if err := s.allowsGroup(group); err != nil {
		return err
	}
	g, _ := s.groups.Get(group)
	var n int64
	for i := range offsets {
		n += g.offsetGrowth(&offsets[i])
	}
	return s.allows(LimitOffsetBytes, n)
}

// offsetGrowth returns the weight that a committed offset adds to g, which is nil if there is no such group.
func (g *groupEntry) offsetGrowth(o *OffsetCommit) int64 {
	var t *topicOffsets
	if g != nil {
		t, _ = g.topics.Get(topicKey(o.Partition.Topic))
	}
	return t.growth(o.Partition.Partition, offsetNote{metadata: o.Metadata, expires: o.ExpiresMs})
}

// growth returns the weight that a committed offset adds to t, which is nil if the group has no offsets of the topic.
func (t *topicOffsets) growth(partition int32, note offsetNote) (n int64) {
	if !note.empty() {
		n = note.weight()
	}
	if t == nil {
		return n + topicOffsetsBytes + offsetBytes
	}
	if _, ok := t.offsets.Get(partition); !ok {
		n += offsetBytes
	}
	if t.notes != nil {
		if old, ok := t.notes.Get(partition); ok {
			n -= old.weight()
		}
	}
	return n
}

func (t *Topic) text() int64 { return int64(len(t.Name) + configBytes(t.Configs)) }

// resourceText returns the length of the configs of a resource other than a topic, with its name.
func resourceText(name string, m map[string]string) int64 {
	if len(m) == 0 {
		return 0
	}
	return int64(len(name) + configBytes(m))
}

func (t *transaction) text() int64 { return int64(len(t.id)) + t.groupBytes }

// weighGroup adds the weight and the name of a group to the load, multiplied by times: 1 when the group is inserted, -1 when it is removed.
func (s *machine) weighGroup(name string, g *groupEntry, times int64) {
	s.load.Other += times * g.weight(name)
	s.load.text += times * int64(len(name))
}

// weighTopicOffsets adds the weight of a group's offsets of a topic to the load, multiplied by times.
func (s *machine) weighTopicOffsets(t *topicOffsets, times int64) {
	s.addOffsetBytes(times * t.weight())
}

func (s *machine) addOffsetBytes(n int64) {
	s.load.Other += n
	s.load.offsets += n
}

// weighTopic adds the weight and text of a topic to the load, multiplied by times.
func (s *machine) weighTopic(t *Topic, times int64) {
	s.load.Other += times * t.weight()
	s.load.text += times * t.text()
}

// weighResource adds the weight and text of the configs of a resource other than a topic to the load, multiplied by times.
func (s *machine) weighResource(name string, m map[string]string, times int64) {
	s.load.Other += times * resourceWeight(name, m)
	s.load.text += times * resourceText(name, m)
}

func (s *machine) encodeLimits(f *sectionWriter) {
	if s.limits == (Limits{}) {
		return
	}
	c := SetLimits{s.limits}
	f.buf = c.appendBody(append(f.buf, byte(recordLimits)))
	f.recordDone()
}

func (d *snapshotDecoder) readLimits(w *wire.Reader) {
	var c SetLimits
	c.readBody(w)
	d.s.limits = c.Limits
}
