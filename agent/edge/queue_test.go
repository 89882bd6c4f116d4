package edge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/kafkaproto"
)

// TestQueue_TakesNoMoreThanWhatWaits: a connection on which there is always a request that waits, as on that of a producer
// at work, keeps nothing of those that were answered.
func TestQueue_TakesNoMoreThanWhatWaits(t *testing.T) {
	q := newQueue(8, 1)
	for i := range int32(10_000) {
		q.push(item{key: kafkaproto.KeyProduce, correlationID: i})
		if i < 4 {
			continue
		}
		it, ok := q.next()
		require.True(t, ok)
		require.Equal(t, i-4, it.correlationID)
		q.answered(it)
	}
	require.LessOrEqual(t, cap(q.mu.items), 16)
}
