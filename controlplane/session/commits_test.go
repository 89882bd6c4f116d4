package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/commit"
)

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
