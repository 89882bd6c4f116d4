package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// Ages are never too high, and too low by no more than the distance of the moments that are remembered.
func TestAges(t *testing.T) {
	a := newAges(10*time.Minute, 6*time.Hour)
	start := time.UnixMilli(0)
	at := func(i int) time.Time { return start.Add(time.Duration(i) * 10 * time.Second) }
	require.Zero(t, a.age(5, start))
	const rounds = 60_000 // a week
	for i := range rounds {
		a.note(uint64(10*i), at(i))
		a.note(uint64(10*i), at(i+1)) // nothing was logged
	}
	require.Less(t, len(a.moments), 300)
	now := at(rounds)
	for i := 1; i < rounds-1; i += 97 {
		age, old := a.age(uint64(10*i-5), now), now.Sub(at(i))
		require.LessOrEqual(t, age, old)
		require.GreaterOrEqual(t, age, min(old, 6*time.Hour)-a.spacing-10*time.Second)
	}
	require.Zero(t, a.age(10*rounds, now), "not seen yet")
}

func TestSetbacks_AreBoundedAndForgotten(t *testing.T) {
	s, now := newSetbacks(), time.UnixMilli(0)
	everything := func(id.Bundle) bool { return true }
	inputs := make([]id.Bundle, 2*maxSetbacks)
	for i := range inputs {
		inputs[i] = id.Bundle(i + 1)
	}
	first := &metadata.JobInfo{Kind: job.Compact, Level: 1, Inputs: inputs}
	s.fail(first, false, now)
	require.Len(t, s.bundles, maxSetbacks)
	require.Equal(t, now.Add(firstPause), s.bundles[1].until)
	for range 30 {
		s.fail(&metadata.JobInfo{Kind: job.Compact, Level: 1, Inputs: inputs[:1]}, false, now)
	}
	require.Equal(t, now.Add(lastPause), s.bundles[1].until)
	s.prune(everything, now.Add(time.Hour))
	require.Len(t, s.bundles, maxSetbacks, "what failed is remembered as long as it lives")
	s.prune(func(b id.Bundle) bool { return b == 1 }, now)
	require.Len(t, s.bundles, 1)

	tp := func(n int32) id.TopicPartition { return id.TopicPartition{Partition: n} }
	second := func(from, to int32) *metadata.JobInfo {
		return &metadata.JobInfo{Kind: job.Compact, Level: 2, First: tp(from), Last: tp(to)}
	}
	s.fail(second(0, 9), false, now)
	s.fail(second(0, 9), false, now)
	require.Len(t, s.ranges, 1)
	require.Equal(t, 1, s.of(tp(4), tp(4)).halves())
	require.Empty(t, s.cleans)
	require.Zero(t, s.of(tp(10), tp(12)).halves())
	s.fail(second(0, 4), false, now)
	require.Equal(t, 2, s.of(tp(4), tp(4)).halves(), "the half takes its past along")
	s.succeed(second(0, 20))
	require.Empty(t, s.ranges)
	s.fail(second(0, 4), false, now)
	s.prune(everything, now.Add(3*lastPause))
	require.Empty(t, s.ranges)
}

func TestSetbacks_OfCleaningsAreBounded(t *testing.T) {
	s, now := newSetbacks(), time.UnixMilli(0)
	clean := func(n int32) *metadata.JobInfo {
		tp := id.TopicPartition{Partition: n}
		return &metadata.JobInfo{Kind: job.Clean, Level: 2, Runner: 1, First: tp, Last: tp}
	}
	everything := func(id.Bundle) bool { return true }
	for n := range int32(maxCleans) {
		s.fail(clean(n), true, now)
		if n != 7 {
			s.fail(clean(n), true, now)
		}
	}
	require.Len(t, s.cleans, maxCleans)
	s.fail(clean(maxCleans), true, now.Add(time.Minute))
	require.Len(t, s.cleans, maxCleans)
	require.NotContains(t, s.cleans, clean(7).First, "it is the next to be tried")
	require.Contains(t, s.cleans, clean(maxCleans).First)
	require.Empty(t, s.ranges)
	require.Empty(t, s.runners, "the inputs are to blame")
	s.succeed(clean(0))
	require.Len(t, s.cleans, maxCleans-1)
	s.prune(everything, now.Add(lastPause))
	require.Len(t, s.cleans, maxCleans-1)
	s.prune(everything, now.Add(3*lastPause))
	require.Empty(t, s.cleans)
}

// A runner that fails at one kind of jobs is given others.
func TestSetbacks_PauseRunnersByKind(t *testing.T) {
	s, now := newSetbacks(), time.UnixMilli(0)
	clean, first := &metadata.JobInfo{Kind: job.Clean, Level: 2, Runner: 1}, &metadata.JobInfo{Kind: job.Compact, Level: 1, Runner: 1}
	for range 30 {
		s.fail(clean, false, now)
	}
	require.Equal(t, now.Add(runnerPause), s.runners[runnerKind{1, job.Clean}].until)
	require.Zero(t, s.runners[runnerKind{1, job.Compact}])
	s.succeed(first)
	require.Len(t, s.runners, 1)
	s.succeed(clean)
	require.Empty(t, s.runners)
}
