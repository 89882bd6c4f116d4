package metadata

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/id"
)

// TestRefused compares Refused with the result of Apply, for random commands in a state around its limits. A refused command leaves the state as
// it is.
func TestRefused(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 22))
	l := newLimited(t)
	limits := Limits{LimitTopics: 3, LimitPartitions: 1020, LimitGroups: 3, LimitOffsetBytes: 3000, LimitTextBytes: 300}
	require.NoError(t, l.apply(&SetLimits{Limits: limits}).Err)
	refusals := map[string]int{}
	for range 20_000 {
		c := l.random(rng)
		refused, ok := l.Refused(c)
		before := l.snapshot().Hash()
		result := l.Apply(l.index+1, &Batch{Now: 1, Commands: []Command{c}}, nil, nil)[0]
		require.Equal(t, ok, refusedWhole(result), "%T: %+v", c, result)
		if !ok {
			continue
		}
		require.Equal(t, result, refused, "%T", c)
		refusals[fmt.Sprintf("%T", c)]++
		l.index-- // the hash has the index
		require.Equal(t, before, l.snapshot().Hash(), "%T", c)
		l.index++
	}
	for _, c := range []Command{&CreateTopic{}, &CreatePartitions{}, &SetConfigs{}, &UpdateGroup{}, &CommitOffsets{}, &AddOffsets{}} {
		require.Greater(t, refusals[fmt.Sprintf("%T", c)], 50, "%T", c)
	}
}

// refusedWhole reports whether a limit refused a command as a whole.
func refusedWhole(r Result) bool {
	errs, _ := r.Value.([]error)
	limited := atLimit(r.Err)
	for _, err := range errs {
		if err == nil {
			return false
		}
		limited = limited || atLimit(err)
	}
	return limited
}

// random returns a command that may grow or shrink the state.
func (l *limited) random(rng *rand.Rand) Command {
	n := rng.IntN(5)
	name, text := fmt.Sprint("name", n), strings.Repeat("x", rng.IntN(200))
	topic := id.Topic{2, byte(n)}
	offsets := func() (list []OffsetCommit) {
		for range 1 + rng.IntN(3) {
			tp := id.TopicPartition{Topic: l.tp.Topic, Partition: rng.Int32N(20) * 60}
			list = append(list, OffsetCommit{Partition: tp, Metadata: text, ExpiresMs: -1})
		}
		return list
	}
	switch rng.IntN(11) {
	case 0:
		return &CreateTopic{ID: topic, Name: name, Partitions: rng.Int32N(12), Configs: map[string]string{"k": text}}
	case 1:
		return &CreatePartitions{ID: topic, Count: rng.Int32N(30)}
	case 2:
		return &SetConfigs{Resource: ConfigTopic, Topic: topic, Set: map[string]string{"k": text}}
	case 3:
		return &SetConfigs{Resource: ConfigGroup, Name: name, Set: map[string]string{"k": text}}
	case 4:
		return &UpdateGroup{Group: name, Kind: GroupKind(rng.IntN(2)), Head: []byte(text)}
	case 5:
		return &CommitOffsets{Group: name, Offsets: offsets()}
	case 6:
		return &CommitOffsets{Group: name, Transaction: &l.ref, Offsets: offsets()}
	case 7:
		return &AddOffsets{TransactionRef: l.ref, Group: name + text}
	case 8:
		return &DeleteGroup{Group: name}
	case 9:
		return &DeleteTopic{ID: topic}
	default:
		if end, ok := l.apply(&EndTransaction{TransactionRef: l.ref, Commit: true}).Value.(EndTransactionResult); ok {
			l.ref.Epoch = end.Epoch
		}
		return &SetConfigs{Resource: ConfigGroup, Name: name, Delete: []string{"k"}}
	}
}
