package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func pauseOf(t *testing.T, err error) time.Duration {
	t.Helper()
	if err == nil {
		return 0
	}
	var paused *PausedError
	require.ErrorAs(t, err, &paused)
	return paused.After
}

// TestAttempt: pauses grow up to MaxPause, hold for all Registries, and end after AttemptsEnd.
func TestAttempt(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	try := func(i int) time.Duration {
		return pauseOf(t, []*Registry{f.Registry, f.second}[i%2].Attempt(ctx, "ada"))
	}
	for i := range FreeAttempts {
		require.Zero(t, try(i))
	}
	for i := range 13 {
		want := min(time.Second<<i, MaxPause)
		require.Equal(t, want, try(i), "attempt %d beyond the free ones", i)
		f.pass(want - time.Millisecond)
		require.Equal(t, time.Millisecond, try(i))
		f.pass(time.Millisecond)
		require.Zero(t, try(i))
	}
	require.Equal(t, MaxPause, try(0))
	require.Zero(t, pauseOf(t, f.Attempt(ctx, "bob")), "another subject")
	f.pass(AttemptsEnd)
	for i := range FreeAttempts {
		require.Zero(t, try(i))
	}
	require.Equal(t, time.Second, try(0))
}

// TestForgive: successful attempts cost nothing, and failed ones stay counted.
func TestForgive(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	require.NoError(t, f.Forgive(ctx, "ada"))
	for range FreeAttempts - 1 {
		require.NoError(t, f.Attempt(ctx, "ada"))
	}
	for range 2 * FreeAttempts {
		require.NoError(t, f.Attempt(ctx, "ada"))
		require.NoError(t, f.Forgive(ctx, "ada"))
	}
	require.NoError(t, f.Attempt(ctx, "ada"))
	require.Equal(t, time.Second, pauseOf(t, f.Attempt(ctx, "ada")))
}

// TestAttempt_AtOnce: attempts at once pass no more often than attempts one after the other.
func TestAttempt_AtOnce(t *testing.T) {
	f := open(t)
	passed := f.race(t, 4*FreeAttempts, func(err error) bool { return pauseOf(t, err) > 0 }, func(r *Registry, _ int) error {
		return r.Attempt(t.Context(), "ada")
	})
	require.LessOrEqual(t, passed, FreeAttempts)
	require.Positive(t, passed)
}

// TestAttempt_Slots: any number of subjects share MaxAttemptSlots records. The test fills a part of them.
func TestAttempt_Slots(t *testing.T) {
	slots := map[string]bool{}
	for i := range 20 * MaxAttemptSlots {
		slots[attemptSlot(fmt.Sprint("subject ", i))] = true
	}
	require.Len(t, slots, MaxAttemptSlots)
	f := open(t)
	for i := range 10 {
		require.NoError(t, f.Attempt(t.Context(), fmt.Sprint("subject ", i)))
	}
	require.LessOrEqual(t, len(f.keys(t, "/attempts/")), 10)
	require.NotContains(t, fmt.Sprint(f.keys(t, "/attempts/")), "subject")
}
