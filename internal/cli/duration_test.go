package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 300 * time.Millisecond: "0.3 s", 5 * time.Second: "5 s", 90 * time.Second: "90 s",
		2*time.Minute + 500*time.Millisecond: "2 min", 119 * time.Minute: "119 min", 47 * time.Hour: "47 h", 50*day + time.Hour: "50 d",
	} {
		require.Equal(t, want, durationText(d))
	}
	require.Equal(t, "0 s", ageText(-time.Hour))
	require.Equal(t, "7 s", secondsText(7.9))
}
