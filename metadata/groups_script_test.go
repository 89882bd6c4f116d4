package metadata

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/id"
)

// runGroup runs the commands of groups and offsets; false if it is none of them.
func (w *world) runGroup(t *testing.T, d *datadriven.TestData) (string, bool) {
	t.Helper()
	var c Command
	switch d.Cmd {
	case "group":
		c = groupUpdate(t, d)
	case "delete-group":
		c = &DeleteGroup{Group: name(t, d)}
	case "offsets":
		c = &CommitOffsets{Group: arg(d, "group"), Offsets: offsetLines(t, d)}
	case "delete-offsets":
		del := &DeleteOffsets{Group: arg(d, "group")}
		for _, line := range strings.Split(d.Input, "\n") {
			f := strings.Fields(line)
			del.Partitions = append(del.Partitions, partitionID(t, f[0]))
			if len(f) > 1 {
				del.CommittedBefore = append(del.CommittedBefore, atoi(t, f[1]))
			}
		}
		c = del
	case "show-groups":
		return showGroups(w.state.snapshot()), true
	default:
		return "", false
	}
	return w.apply(t, c), true
}

// groupUpdate reads kind, head and reset, and lines "member value" or "-member".
func groupUpdate(t *testing.T, d *datadriven.TestData) *UpdateGroup {
	t.Helper()
	c := &UpdateGroup{Group: name(t, d), Kind: GroupKind(num(t, d, "kind", 1)), Reset: d.HasArg("reset")}
	if d.HasArg("head") {
		c.Head = []byte(arg(d, "head"))
	}
	for _, line := range strings.Fields(d.Input) {
		if member, ok := strings.CutPrefix(line, "-"); ok {
			c.Members = append(c.Members, GroupMember{ID: member})
			continue
		}
		member, value, _ := strings.Cut(line, "=")
		c.Members = append(c.Members, GroupMember{ID: member, Value: []byte(value)})
	}
	return c
}

// offsetLines reads lines "topic/partition offset [epoch=…] [note=…] [expires=…]".
func offsetLines(t *testing.T, d *datadriven.TestData) (offsets []OffsetCommit) {
	t.Helper()
	for _, line := range strings.Split(d.Input, "\n") {
		f := strings.Fields(line)
		o := OffsetCommit{Partition: partitionID(t, f[0]), Offset: atoi(t, f[1]), LeaderEpoch: -1, ExpiresMs: -1}
		for _, option := range f[2:] {
			key, value, _ := strings.Cut(option, "=")
			switch key {
			case "epoch":
				o.LeaderEpoch = int32(atoi(t, value))
			case "note":
				o.Metadata = value
			case "expires":
				o.ExpiresMs = atoi(t, value)
			}
		}
		offsets = append(offsets, o)
	}
	return offsets
}

func showGroups(s *machine) string {
	var b strings.Builder
	for g := range s.Groups() {
		committed, pending := s.HasOffsets(g.Name)
		fmt.Fprintf(&b, "%s kind %d head %q committed %t pending %t\n", g.Name, g.Kind, g.Head, committed, pending)
		for member, value := range g.Members {
			fmt.Fprintf(&b, "  member %s %q\n", member, value)
		}
		for tp, o := range s.Offsets(g.Name) {
			fmt.Fprintf(&b, "  %s/%d at %d epoch %d note %q committed %d expires %d\n", topicName(tp.Topic), tp.Partition,
				o.Offset, o.LeaderEpoch, o.Metadata, o.CommittedMs, o.ExpiresMs)
		}
	}
	return b.String()
}

// randomGroup makes a command of a few groups.
func randomGroup(rng *rand.Rand) Command {
	group := fmt.Sprint("g", rng.IntN(4))
	partition := func() id.TopicPartition {
		return id.TopicPartition{Topic: topicID(fmt.Sprint(rng.IntN(4))), Partition: rng.Int32N(60)}
	}
	switch rng.IntN(8) {
	case 0:
		c := &UpdateGroup{Group: group, Kind: GroupKind(rng.IntN(3)), Reset: rng.IntN(4) == 0}
		if rng.IntN(2) == 0 {
			c.Head = make([]byte, rng.IntN(3))
		}
		for i := range rng.IntN(3) {
			m := GroupMember{ID: fmt.Sprint(i, rng.IntN(3))}
			if rng.IntN(3) > 0 {
				m.Value = make([]byte, rng.IntN(4))
			}
			c.Members = append(c.Members, m)
		}
		return c
	case 1:
		if rng.IntN(3) == 0 {
			return &DeleteGroup{Group: group}
		}
		return &Tick{}
	case 2:
		c := &DeleteOffsets{Group: group, Partitions: []id.TopicPartition{partition(), partition()}}
		if rng.IntN(2) == 0 {
			c.CommittedBefore = []int64{rng.Int64N(1 << 30), rng.Int64N(1 << 30)}
		}
		return c
	default:
		c := &CommitOffsets{Group: group}
		for range rng.IntN(6) {
			o := OffsetCommit{Partition: partition(), Offset: rng.Int64N(100) - 1, LeaderEpoch: rng.Int32N(3) - 1, ExpiresMs: -1}
			if rng.IntN(3) == 0 {
				o.Metadata = "note"
			}
			if rng.IntN(5) == 0 {
				o.ExpiresMs = rng.Int64N(1 << 30)
			}
			c.Offsets = append(c.Offsets, o)
		}
		return c
	}
}

// requireGroupsTidy: an entry has a reason to be there, and notes belong to offsets.
func requireGroupsTidy(t *testing.T, s *machine) {
	t.Helper()
	s.groups.Scan(func(name string, g *groupEntry) bool {
		require.False(t, g.empty(), "group %s", name)
		g.topics.Scan(func(_ string, o *topicOffsets) bool {
			require.False(t, o.empty(), "group %s", name)
			requirePendingBytes(t, o)
			if o.notes != nil {
				require.Positive(t, o.notes.Len())
				o.notes.Scan(func(n int32, _ offsetNote) bool {
					_, ok := o.offsets.Get(n)
					require.True(t, ok, "note of %d", n)
					return true
				})
			}
			return true
		})
		return true
	})
}

// requirePendingBytes compares the weight of what is pending with what is pending.
func requirePendingBytes(t *testing.T, o *topicOffsets) {
	t.Helper()
	var bytes int64
	if o.pending != nil {
		o.pending.Scan(func(_ int32, list []pendingOffset) bool {
			for i := range list {
				bytes += pendingWeight(list[i].note.metadata)
			}
			return true
		})
	}
	require.Equal(t, bytes, o.pendingBytes)
}
