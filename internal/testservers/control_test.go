package testservers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testservers"
)

// TestProcess_OutputIsItsOwn: of two processes of one name each tells what it has said itself, over all its starts.
func TestProcess_OutputIsItsOwn(t *testing.T) {
	echo := func(text string) *testservers.Process {
		return testservers.NewProcess(t, "echo", "echo", []string{text}, nil)
	}
	first, second := echo("first"), echo("second")
	for _, p := range []*testservers.Process{first, second, first} {
		p.Launch()
		require.NoError(t, p.Await(t.Context()))
	}
	require.Equal(t, "first\nfirst\n", first.Output())
	require.Equal(t, "second\n", second.Output())
}
