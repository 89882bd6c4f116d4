package metadata

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// applied applies commands at a time and returns the last result.
func applied(t *testing.T, s *machine, now int64, list ...Command) Result {
	t.Helper()
	r := s.Apply(s.index+1, &Batch{Now: now, Commands: list}, nil, nil)
	require.NoError(t, r[len(r)-1].Err)
	return r[len(r)-1]
}

func producing(n uint32, topic string, sequence int32) *CommitBundle {
	return commitOf(1, n, 0, section{topic, 0, []commit.Batch{{Records: 5, Bytes: 100, ProducerID: 7, BaseSequence: sequence}}})
}

func outcomeOf(t *testing.T, r Result) commit.Outcome {
	t.Helper()
	return r.Value.(*commit.Result).Sections[0].Spans[0].Outcome
}

// undeleteAfterAnother deletes a topic, has another one of its name written to and deleted, and takes the first deletion back. wait is
// between each two of these. A producer whose client numbers by name then begins at 0 again, as after any deletion that another topic
// followed (undeleteTopic): it must not be told that its records were committed before.
func undeleteAfterAnother(t *testing.T, keep, step, rest int64) {
	t.Helper()
	s, now := newMachine(), int64(1_000_000)
	applied(t, s, now, &OpenSession{Instance: "i"}, &AllocateProducerIDs{Count: 10}, &CreateTopic{ID: topicID("a"), Name: "t", Partitions: 1})
	require.Equal(t, commit.Accepted, outcomeOf(t, applied(t, s, now, producing(1, "a", 0))))
	applied(t, s, now, &DeleteTopic{ID: topicID("a"), KeepMs: keep})
	now += step
	applied(t, s, now, &CreateTopic{ID: topicID("b"), Name: "t", Partitions: 1})
	require.Equal(t, commit.Accepted, outcomeOf(t, applied(t, s, now, producing(2, "b", 0))))
	applied(t, s, now, &DeleteTopic{ID: topicID("b"), KeepMs: keep})
	now += rest
	applied(t, s, now, &Tick{})
	applied(t, s, now, &UndeleteTopic{ID: topicID("a")})
	before, _ := s.Watermarks(id.TopicPartition{Topic: topicID("a")})
	got := outcomeOf(t, applied(t, s, now, producing(3, "a", 0)))
	after, _ := s.Watermarks(id.TopicPartition{Topic: topicID("a")})
	require.Equal(t, commit.Accepted, got, "acknowledged at high watermark %d, now %d", before.HighWatermark, after.HighWatermark)
}

func TestUndelete_AfterAnotherOfTheName(t *testing.T) {
	undeleteAfterAnother(t, time.Hour.Milliseconds(), 1000, 1000)
}

// --topic-undelete above 24 h: the name is forgotten after 24 h, and with it that another topic had it.
func TestUndelete_AfterTheNameWasForgotten(t *testing.T) {
	undeleteAfterAnother(t, 7*24*time.Hour.Milliseconds(), 1000, 25*time.Hour.Milliseconds())
}

// Both deletions at one command time, which stands still while an owner's clock was ahead before.
func TestUndelete_WhileCommandTimeStandsStill(t *testing.T) {
	undeleteAfterAnother(t, time.Hour.Milliseconds(), 0, 0)
}

// Decode "refuses whatever Apply could trip over". An ended entry of an open session or job has the sweep delete what is put and not
// committed yet; a Clean job without bounds takes any outcome.
func TestDecode_RefusesWhatApplyNeverMakes(t *testing.T) {
	for name, spoil := range map[string]func(s *machine){
		"ended entry of an open session": func(s *machine) { s.ended.Set(1, endedWriter{nextN: 1}) },
		"ended entry of an open job":     func(s *machine) { s.ended.Set(2, endedWriter{}) },
		"session that is a job":          func(s *machine) { j, _ := s.jobs.Get(2); s.jobs.Set(1, j) },
		"clean job without bounds":       func(s *machine) { s.jobs.Set(2, &openJob{kind: job.Clean, runner: 1}) },
		"job of a runner that never was": func(s *machine) { s.jobs.Set(2, &openJob{kind: job.Compact, runner: 1 << 30}) },
		"bundle both live and dead": func(s *machine) {
			s.bundles.Set(5, liveBundle{bytes: 1, extents: 1})
			s.dead.Set(5, DeadBundle{Bytes: 1})
		},
		"deletion from the future": func(s *machine) {
			e, _ := s.topics.Get(topicKey(topicID("d")))
			s.mutableTopic(e).deletion = &deletion{order: e.deletion.order, at: 1 << 60, keep: 1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newMachine()
			applied(t, s, 1000, &OpenSession{Instance: "i"}, &StartJob{Kind: job.Compact, Level: 1, Runner: 1},
				&CreateTopic{ID: topicID("d"), Name: "d", Partitions: 1}, &DeleteTopic{ID: topicID("d"), KeepMs: 5})
			spoil(s)
			var buf bytes.Buffer
			require.NoError(t, s.snapshot().Encode(&buf))
			_, err := decode(&buf)
			require.ErrorIs(t, err, ErrMalformedSnapshot)
		})
	}
}
