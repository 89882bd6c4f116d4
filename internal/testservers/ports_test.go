package testservers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPorts_EachIsGivenOnce: by one process, and by two, which have locks of the same files.
func TestPorts_EachIsGivenOnce(t *testing.T) {
	var one, other portBlocks
	t.Cleanup(func() {
		for _, lock := range append(one.locks, other.locks...) {
			lock.Close()
		}
	})
	given := map[int]bool{}
	for range portBlock + 1 {
		for _, b := range []*portBlocks{&one, &other} {
			port, err := b.next()
			require.NoError(t, err)
			require.False(t, given[port], "%d is given twice", port)
			require.True(t, port >= firstPort && port < lastPort)
			given[port] = true
		}
	}
	require.Len(t, one.locks, 2)
}
