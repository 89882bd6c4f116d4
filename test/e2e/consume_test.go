package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// sorted is the lines of a text in order: records of several partitions come in any.
func sorted(lines string) []string {
	return slices.Sorted(strings.Lines(lines))
}

// TestConsume_Group: a member commits where it began and what it wrote, nothing else, however it ends, and the next one goes on there.
func TestConsume_Group(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t)
	cli := func(in string, args ...string) string {
		return harness.CLI(t, d.Bootstrap, strings.NewReader(in), args...)
	}
	cli("", "topic", "create", "t", "--partitions", "3")
	cli(numbers(1, 100), "produce", "t")
	rest := func(group string) string {
		return cli("", "consume", "t", "--group", group, "--from", "earliest", "--exit-at-end")
	}
	require.Equal(t, sorted(numbers(1, 100)), sorted(rest("g")))
	require.Empty(t, rest("g"), "all is committed")

	cli(numbers(101, 120), "produce", "t")
	some := cli("", "consume", "t", "--group", "g", "--from", "earliest", "--count", "7")
	require.Len(t, sorted(some), 7)
	require.Equal(t, sorted(numbers(101, 120)), sorted(some+rest("g")), "each once")

	member := exec.CommandContext(t.Context(), harness.Freshet(t), "consume", "t", "-b", d.Bootstrap, "--group", "interrupted", "--from", "earliest")
	out, err := member.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, member.Start())
	lines := bufio.NewScanner(out)
	for range 120 {
		require.True(t, lines.Scan())
	}
	require.NoError(t, member.Process.Signal(os.Interrupt))
	require.NoError(t, member.Wait())
	require.Empty(t, rest("interrupted"), "committed on exit")

	for _, args := range [][]string{{"--partition", "1"}, {"--from", "17"}} {
		r := harness.TryCLI(t, d.Bootstrap, nil, append([]string{"consume", "t", "--group", "g"}, args...)...)
		require.Equal(t, 2, r.Code)
		require.Contains(t, r.Err, "--group")
	}
}
