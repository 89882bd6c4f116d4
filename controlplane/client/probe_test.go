package client

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSession_Hears: an owner that answers is heard however rare probes are. A probe without an answer, or a time without a stream, counts.
func TestSession_Hears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Session{}
		p := &s.probes
		const within = 1500 * time.Millisecond
		require.False(t, s.Hears(within), "no answer yet")
		answer := func() {
			token, ok := p.next(true)
			require.True(t, ok)
			p.stamped(token, 1)
		}
		answer()
		time.Sleep(time.Minute)
		require.True(t, s.Hears(within))

		_, ok := p.next(true)
		require.True(t, ok)
		time.Sleep(within)
		require.True(t, s.Hears(within))
		time.Sleep(time.Millisecond)
		require.False(t, s.Hears(within))
		p.reset()
		require.False(t, s.Hears(within), "the stream ended meanwhile")
		answer()
		require.True(t, s.Hears(within))

		p.reset()
		time.Sleep(within)
		require.True(t, s.Hears(within))
		time.Sleep(time.Millisecond)
		require.False(t, s.Hears(within), "no stream for so long")
		answer()
		require.True(t, s.Hears(within))
	})
}
