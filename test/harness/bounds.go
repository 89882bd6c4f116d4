package harness

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var bounds = flag.Bool("bounds", false, "fail where a time exceeds its bound; only for a machine that runs nothing else")

// Bounded reports whether Within fails the test, so that a test may have to keep the machine for itself.
func Bounded() bool { return *bounds }

// Within logs a time and its bound. With -bounds it also fails the test if took exceeds limit.
func Within(t *testing.T, what string, took, limit time.Duration) {
	t.Helper()
	t.Logf("%s: %s, bound %s", what, took.Round(time.Millisecond), limit.Round(time.Millisecond))
	if *bounds {
		require.LessOrEqual(t, took, limit, what)
	}
}
