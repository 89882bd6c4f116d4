package client

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The owner's clock is an hour ahead. Slow answers must not spoil the estimate that a quick one gave, until that is
// old.
func TestSession_NowFollowsTheOwnersClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Session{}
		require.Equal(t, time.Now(), s.Now(), "own clock before the first stamp")
		probe := func(there, back, ahead time.Duration) {
			s.clock.probeSent()
			time.Sleep(there)
			stamp := time.Now().Add(ahead)
			time.Sleep(back)
			s.clock.stamped(stamp)
		}
		probe(time.Millisecond, time.Millisecond, time.Hour)
		require.Equal(t, time.Hour, time.Until(s.Now()))
		probe(time.Millisecond, 900*time.Millisecond, time.Hour)
		require.Equal(t, time.Hour, time.Until(s.Now()))
		time.Sleep(estimateLife)
		probe(5*time.Millisecond, 5*time.Millisecond, 2*time.Hour)
		require.Equal(t, 2*time.Hour, time.Until(s.Now()))
	})
}
