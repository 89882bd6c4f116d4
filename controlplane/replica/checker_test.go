package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata"
)

// While the bucket is away the owner marks again and again and never says a hash. Who replays such a log hashes a few of
// these states at a time and no more: each is a walk over everything, beside the replay that a takeover waits for.
func TestChecker_HashesFewAtATime(t *testing.T) {
	c := newChecker()
	release, began := make(chan struct{}), make(chan struct{}, 1000)
	c.hash = func(*metadata.State) uint64 {
		began <- struct{}{}
		<-release
		return 7
	}
	s := metadata.New()
	for index := range uint64(1000) {
		c.mark(index+1, s)
	}
	close(release)
	c.wait()
	require.Len(t, began, maxMarks)

	c.mark(2000, s)
	c.wait()
	c.check(metadata.CheckHash{Index: 2000, Hash: 7})
	require.Empty(t, c.failed)
	c.mark(3000, s)
	c.wait()
	c.check(metadata.CheckHash{Index: 3000, Hash: 8})
	require.ErrorIs(t, <-c.failed, ErrHashMismatch)
}
