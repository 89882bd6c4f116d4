package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSizeText(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1.0 MiB", 5 << 30: "5.0 GiB", 1<<63 - 1: "8.0 EiB",
	} {
		require.Equal(t, want, sizeText(n))
	}
}

func TestAgeText(t *testing.T) {
	for age, want := range map[time.Duration]string{
		-time.Hour: "0s", 90 * time.Second: "90s", 2 * time.Minute: "2m", 119 * time.Minute: "119m", 47 * time.Hour: "47h", 50 * 24 * time.Hour: "50d",
	} {
		require.Equal(t, want, ageText(age))
	}
}

// TestSumOf: a topic is as large as its partitions and as new as the newest, and unknown if one of them is.
func TestSumOf(t *testing.T) {
	now := time.UnixMilli(100_000)
	of := func(bytes, newest int64) stored { return stored{&bytes, &newest} }
	show := func(s stored) string { return s.size() + ", " + s.age(now) }
	require.Equal(t, "0 B, none", show(sumOf(nil)))
	require.Equal(t, "30 B, 20s ago", show(sumOf([]stored{of(10, 80_000), of(20, -1)})))
	require.Equal(t, "-, -", show(sumOf([]stored{of(10, 80_000), {}})))
}
