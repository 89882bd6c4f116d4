package session

import (
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestAgent_CommitOfLargestTimestamp: below metadata.TimestampVersion the owner refuses the commit before it is logged.
func TestAgent_CommitOfLargestTimestamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSequenceWorld(t)
		a := &agent{t: w.sequence.t, session: 1, commits: w.sequence, bounded: true, out: newOutbox(1<<20, func(error) {})}
		var b commit.Builder
		b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: 1}, Bytes: 1000})
		b.Section(commit.Section{})
		b.Batch(commit.Batch{Records: 1, Bytes: 100, MaxTimestamp: math.MaxInt64, ProducerID: commit.NoProducer})
		encoded := b.AppendTo(nil)
		answer := func() *api.CommitAnswer {
			a.commit(&api.Commit{Request: 1, Encoded: encoded})
			synctest.Wait()
			items := a.out.take()
			require.Len(t, items, 1)
			return items[0].GetCommit()
		}
		before := w.at()
		require.Equal(t, api.Error_INVALID, answer().GetError().GetCode())
		require.Equal(t, before, w.at(), "nothing is logged")
		_, _, err := w.sequence.t.owner.Propose(t.Context(), &metadata.RaiseVersion{Version: metadata.TimestampVersion})
		require.NoError(t, err)
		require.Nil(t, answer().GetError())
	})
}

// TestAgent_UnderstoodResult: an agent of an earlier version reads a refusal of too many producers as a gap.
func TestAgent_UnderstoodResult(t *testing.T) {
	result := &commit.Result{Sections: []commit.SectionResult{
		{LogStart: 3, Spans: []commit.Span{{Batches: 2, Base: 5}, {Batches: 1, Outcome: commit.TooManyProducers, Base: -1}}},
		{Spans: []commit.Span{{Batches: 1, Outcome: commit.Fenced, Base: -1}}},
	}}
	earlier := &agent{}
	got := earlier.understood(result)
	require.Equal(t, commit.Gap, got.Sections[0].Spans[1].Outcome)
	require.Equal(t, commit.TooManyProducers, result.Sections[0].Spans[1].Outcome, "the stored result stays")
	got.Sections[0].Spans[1].Outcome = commit.TooManyProducers
	require.Equal(t, result, got)
	require.Same(t, result, (&agent{bounded: true}).understood(result))
	_, err := commit.ParseResult(commit.AppendResult(nil, result))
	require.NoError(t, err)
}
