package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRecent_AllowsOncePerPause: each name is new once per pause, and the names remembered are bounded.
func TestRecent_AllowsOncePerPause(t *testing.T) {
	r := newRedirects()
	now := time.Now()
	require.True(t, r.allow("m", now))
	require.False(t, r.allow("m", now.Add(redirectPause-1)))
	require.True(t, r.allow("m", now.Add(redirectPause)))
	now = now.Add(redirectPause)
	for i := range maxRedirects - 1 {
		require.True(t, r.allow(fmt.Sprint(i), now))
	}
	require.False(t, r.allow("one more", now))
	require.True(t, r.allow("one more", now.Add(redirectPause)))
	require.Equal(t, 1, r.len(now.Add(redirectPause)))
}

// TestRecent_First: a name is new for a window, once per pause.
func TestRecent_First(t *testing.T) {
	r, now := newRecent(time.Minute, 1), time.Now()
	for after, want := range map[time.Duration]bool{0: true, time.Second - 1: true, time.Second: false, time.Minute - 1: false} {
		require.True(t, r.first("m", now, time.Second))
		require.Equal(t, want, r.first("m", now.Add(after), time.Second), after)
	}
	require.False(t, r.first("one more", now, time.Second), "one name is remembered at most")
	require.True(t, r.first("m", now.Add(time.Minute), time.Second))
}
