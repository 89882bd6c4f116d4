package metadata

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/id"
)

// TestGrowthHere compares the memory that random commands add to a state with the growth computed before from the state, and from the
// command alone.
func TestGrowthHere(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 21))
	l := newLimited(t)
	text := func() string { return strings.Repeat("x", rng.IntN(3000)) }
	overwritten := 0
	for range 5000 {
		var c Command
		switch name := fmt.Sprint(rng.IntN(5)); rng.IntN(5) {
		case 0:
			c = &DeleteGroup{Group: name}
		case 1, 2:
			u := &UpdateGroup{Group: name, Kind: GroupClassic, Reset: rng.IntN(4) == 0, Head: []byte(text())}
			for member := range 3 {
				m := GroupMember{ID: fmt.Sprint(member), Value: []byte(text())}
				if rng.IntN(3) == 0 {
					m.Value = nil
				}
				u.Members = append(u.Members, m)
			}
			c = u
		case 3:
			u := &CommitOffsets{Group: name}
			for range 1 + rng.IntN(3) {
				tp := id.TopicPartition{Topic: l.tp.Topic, Partition: rng.Int32N(10)}
				u.Offsets = append(u.Offsets, OffsetCommit{Partition: tp, Metadata: text(), ExpiresMs: -1})
			}
			c = u
		default:
			c = &InitTransaction{TransactionalID: name, TimeoutMs: 1, ProducerID: -1, ProducerEpoch: -1}
		}
		before := l.Load()
		growth, exists := l.GrowthHere(c)
		l.apply(c)
		after := l.Load()
		require.LessOrEqual(t, after.MemoryBytes()-before.MemoryBytes(), growth.Bytes, "%T", c)
		require.LessOrEqual(t, after.TopicsAndGroups-before.TopicsAndGroups, growth.TopicsAndGroups, "%T", c)
		require.LessOrEqual(t, growth.Bytes, GrowthOf(c).Bytes, "%T", c)
		if _, ok := c.(*UpdateGroup); ok && exists {
			require.Equal(t, growth.Bytes, after.TopicsAndGroups-before.TopicsAndGroups)
		}
		if exists && growth.Bytes <= 0 {
			overwritten++
		}
	}
	require.Greater(t, overwritten, 500)
}
