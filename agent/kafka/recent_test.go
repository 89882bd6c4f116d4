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
