package group

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPause_Length: pauses in a row double up to a minute, and a refusal during a pause does not prolong it. After a minute without one, they begin anew.
func TestPause_Length(t *testing.T) {
	now, why := time.Unix(1e9, 0), errors.New("no room")
	var p pause
	for _, seconds := range []time.Duration{5, 10, 20, 40, 60, 60} {
		p.begin(now, why)
		require.Equal(t, now.Add(seconds*time.Second), p.until)
		p.begin(p.until.Add(-1), why)
		require.Equal(t, now.Add(seconds*time.Second), p.until)
		now = p.until.Add(time.Second)
	}
	now = p.until.Add(time.Minute)
	p.begin(now, why)
	require.Equal(t, now.Add(5*time.Second), p.until)
}
