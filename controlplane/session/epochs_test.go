package session

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/freshet-io/freshet/agent/view" // what agents make of the messages
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// follower is an agent's catalogue, fed by messages as they come over the stream.
type follower struct {
	*view.Catalogue
	bytes int // of the last message
}

func (f *follower) take(t *testing.T, m *api.Catalogue) {
	t.Helper()
	encoded, err := proto.Marshal(m)
	require.NoError(t, err)
	f.bytes = len(encoded)
	var read api.Catalogue
	require.NoError(t, proto.Unmarshal(encoded, &read))
	f.OnCatalogue(&read)
}

// require compares every epoch with the state's.
func (f *follower) require(t *testing.T, s *metadata.State) {
	t.Helper()
	snapshot, n := f.Load(), 0
	for want := range s.Topics() {
		got, ok := snapshot.TopicByID(want.ID)
		require.True(t, ok)
		named, _ := snapshot.TopicByName(want.Name)
		require.Same(t, got, named)
		require.Equal(t, want.LeaderEpochs, got.Epochs)
		for p := range want.Partitions {
			epoch := want.LeaderEpochs.At(p)
			if got.LeaderEpoch(p, snapshot.Version) != epoch {
				require.Equal(t, epoch, got.LeaderEpoch(p, snapshot.Version), "partition %d of %s", p, want.Name)
			}
		}
		n++
	}
	require.Equal(t, n, snapshot.TopicCount())
}

// epochCommand gives a command of a random history.
func epochCommand(rng *rand.Rand, s *metadata.State, n int) metadata.Command {
	topics, open := slices.Collect(s.Topics()), []id.Session(nil)
	for info := range s.Sessions() {
		if !info.Closed {
			open = append(open, info.ID)
		}
	}
	switch k := rng.IntN(10); {
	case k < 4:
		return &metadata.OpenSession{
			Instance: fmt.Sprint(n), Zone: fmt.Sprint(rng.IntN(2)), Endpoints: []metadata.Endpoint{{Host: "h"}, {Host: "h"}},
		}
	case k < 6 && len(open) > 0:
		return &metadata.CloseSession{Session: open[rng.IntN(len(open))]}
	case k == 6 && len(topics) > 0:
		return &metadata.DrainSession{Session: 1}
	case k == 7 && len(topics) > 1:
		return &metadata.DeleteTopic{ID: topics[rng.IntN(len(topics))].ID, KeepMs: 1000}
	case k == 8 && len(topics) > 0:
		t := topics[rng.IntN(len(topics))]
		return &metadata.CreatePartitions{ID: t.ID, Count: t.Partitions + 1 + rng.Int32N(5)}
	default:
		return &metadata.CreateTopic{ID: id.Topic{byte(rng.IntN(9)), 1}, Name: fmt.Sprint(rng.IntN(5), n), Partitions: 1 + rng.Int32N(20)}
	}
}

// TestCatalogue_EpochsFollowTheState: whoever gets the changes one by one and whoever begins later have the epochs of the
// state.
func TestCatalogue_EpochsFollowTheState(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 5))
		s := metadata.New()
		first, later := &follower{Catalogue: view.NewCatalogue()}, &follower{Catalogue: view.NewCatalogue()}
		first.take(t, whole(s))
		for n := range 150 {
			commands := []metadata.Command{epochCommand(rng, s, n)}
			for rng.IntN(3) == 0 {
				commands = append(commands, epochCommand(rng, s, 1000+n+100*len(commands)))
			}
			var fx metadata.Effects
			s.Apply(s.Index()+1, &metadata.Batch{Commands: commands}, &fx, nil)
			if m := catalogueDelta(s, s.Index(), &fx); m != nil {
				first.take(t, m)
				later.take(t, m)
			}
			if rng.IntN(5) == 0 || n == 0 {
				later.take(t, whole(s))
			}
			first.require(t, s)
			later.require(t, s)
		}
	}
}

// TestCatalogue_EpochsAreSmall: what goes to each agent when one joins six is a byte or two for each partition that moves,
// and next to nothing where all do.
func TestCatalogue_EpochsAreSmall(t *testing.T) {
	const topics, partitions = 1000, 100
	s := metadata.New()
	var cmds []metadata.Command
	for i := range topics {
		cmds = append(cmds, &metadata.CreateTopic{ID: id.Topic{byte(i), byte(i >> 8), 1}, Name: fmt.Sprint(i), Partitions: partitions})
	}
	s.Apply(1, &metadata.Batch{Commands: cmds}, nil, nil)
	f := &follower{Catalogue: view.NewCatalogue()}
	f.take(t, whole(s))
	for n := range 7 {
		var fx metadata.Effects
		s.Apply(s.Index()+1, &metadata.Batch{Commands: []metadata.Command{&metadata.OpenSession{
			Instance: fmt.Sprint(n), Endpoints: []metadata.Endpoint{{Host: "h"}},
		}}}, &fx, nil)
		f.take(t, catalogueDelta(s, s.Index(), &fx))
		f.require(t, s)
		t.Logf("%d agents: %d bytes", n+1, f.bytes)
		switch n {
		case 0:
			require.Less(t, f.bytes, 100)
		case 6:
			require.Less(t, f.bytes, topics*partitions/2)
		}
	}
	full, err := proto.Marshal(whole(s))
	require.NoError(t, err)
	t.Logf("full catalogue: %d bytes", len(full))
}

// whole is a full catalogue in one message, as agents get it that do not put parts together.
func whole(s *metadata.State) *api.Catalogue {
	for c := range fullCatalogue(s, math.MaxInt) {
		return c
	}
	return nil
}
