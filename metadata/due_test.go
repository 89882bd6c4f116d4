package metadata

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/commit"
)

// tickChanges reports whether a Tick at a command time changes more than that time.
func tickChanges(t *testing.T, s *machine, now int64) bool {
	t.Helper()
	ticked, passed := restore(t, s), restore(t, s)
	ticked.Apply(s.index+1, &Batch{Now: now, Commands: []Command{&Tick{}}}, nil, nil)
	passed.Apply(s.index+1, &Batch{Now: now}, nil, nil)
	return ticked.Hash() != passed.Hash()
}

// dueFor names a kind of work that is due first.
func dueFor(s *machine) string {
	switch due := s.NextDue(); due {
	case never:
		return "nothing"
	case s.producersDue():
		return "producers"
	case s.sessionsDue():
		return "sessions"
	case s.namesDue():
		return "names"
	default:
		if t, ok := s.transactions.due.Min(); ok && t.at == due {
			return "transactions"
		}
		if s.offsetsDue() {
			return "offsets"
		}
		return "cleanup"
	}
}

// In random histories, a third of whose steps go to NextDue, a Tick changes nothing but the time before NextDue, and more at NextDue.
func TestNextDue_OfRandomHistories(t *testing.T) {
	reached := map[string]int{}
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 9))
		s := newMachine()
		for range 120 {
			now := s.now + rng.Int64N(resultRetentionMs/3)
			if due := s.NextDue(); due < never && rng.IntN(3) == 0 {
				now = due
			}
			commands := randomCommands(rng, s)
			for _, c := range commands {
				if open, ok := c.(*OpenSession); ok {
					open.Zone = []string{"", "a", "b"}[rng.IntN(3)]
				}
			}
			s.Apply(s.index+1, &Batch{Now: now, Commands: commands}, nil, nil)
			due := s.NextDue()
			require.GreaterOrEqual(t, due, s.now)
			before := min(due, s.now+2*TransactionalIDExpirationMs) - 1
			for _, now := range []int64{s.now, s.now + rng.Int64N(max(1, before-s.now+1)), before} {
				if now >= s.now && now < due {
					require.False(t, tickChanges(t, s, now), "seed %d index %d: at %d, due at %d", seed, s.index, now, due)
				}
			}
			if due < never {
				reached[dueFor(s)]++
				require.True(t, tickChanges(t, s, due), "seed %d index %d: due at %d for %s", seed, s.index, due, dueFor(s))
			}
			if rng.IntN(4) == 0 {
				for range 3 { // leaves nothing of the cleanup queue, so that the times of other work count
					s.Apply(s.index+1, &Batch{Now: s.now, Commands: []Command{&Tick{}}}, nil, nil)
				}
			}
		}
	}
	t.Logf("due first: %v", reached)
	for _, work := range []string{"producers", "sessions", "names", "transactions", "offsets", "cleanup"} {
		require.Positive(t, reached[work], work)
	}
}

// A state with more topics and partitions than one Tick sweeps is due as long as one producer is active.
func TestNextDue_OfMoreThanOneTickSweeps(t *testing.T) {
	s := newMachine()
	apply := func(now int64, c Command) {
		t.Helper()
		require.NoError(t, s.Apply(s.index+1, &Batch{Now: now, Commands: []Command{c}}, nil, nil)[0].Err)
	}
	for n := range sweepSteps {
		apply(0, &CreateTopic{ID: topicID(fmt.Sprint(n)), Name: fmt.Sprint(n), Partitions: 1})
	}
	require.Equal(t, never, s.NextDue())
	apply(0, &OpenSession{Instance: "a"})
	apply(0, commitOf(1, 1, 0, section{"0", 0, []commit.Batch{{Records: 1, Bytes: 61, ProducerID: 7}}}))
	require.Equal(t, s.now, s.NextDue())
	for range 3 {
		apply(ProducerIDExpirationMs+useSpan*1000, &Tick{})
	}
	require.Equal(t, never, s.NextDue())
}

// PassTime moves the time of readers, never back, and nothing that replicas compare.
func TestPassTime_IsForReaders(t *testing.T) {
	s := newMachine()
	s.Apply(1, &Batch{Now: 1000}, nil, nil)
	hash := s.Hash()
	s.PassTime(5000)
	s.PassTime(4000)
	require.EqualValues(t, 5000, s.Now())
	require.EqualValues(t, 5000, s.snapshot().Now())
	require.Equal(t, hash, s.Hash())
	require.EqualValues(t, 1000, restore(t, s).Now())
	s.Apply(2, &Batch{Now: 6000}, nil, nil)
	require.EqualValues(t, 6000, s.Now())
}
