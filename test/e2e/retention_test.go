package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// TestDev_Retention has records go by age and by size while their neighbours stay.
func TestDev_Retention(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t, "--retention-check-interval", "200ms")
	cli := func(in string, args ...string) string {
		t.Helper()
		return harness.CLI(t, d.Bootstrap, strings.NewReader(in), args...)
	}
	cli("", "topic", "create", "young", "-c", "retention.ms=1000")
	cli("", "topic", "create", "small", "-c", "retention.bytes=1")
	cli("", "topic", "create", "kept")
	for _, topic := range []string{"young", "small", "kept"} {
		for _, first := range []int{1, 101} { // an extent each: one batch, however slowly its lines come
			cli(numbers(first, first+99), "produce", topic, "--linger", "1m")
		}
	}
	read := func(topic string) string { return cli("", "consume", topic, "--from", "earliest", "--exit-at-end") }
	harness.Await(t, "records older than a second to go", func() bool { return read("young") == "" })
	harness.Await(t, "the first batch of two to go", func() bool { return read("small") == numbers(101, 200) })
	require.Equal(t, numbers(1, 200), read("kept"))
	require.Regexp(t, `(?m)^0 +\d+ +200 +200 +0 `, cli("", "topic", "describe", "young"))
}
