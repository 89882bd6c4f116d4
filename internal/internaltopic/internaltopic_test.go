package internaltopic

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The values are those of Math.abs("...".hashCode()) % 50 in Java.
func TestPartitionOf(t *testing.T) {
	for group, want := range map[string]int32{"": 0, "a": 47, "g": 3, "polygenelubricants": 0} {
		require.Equal(t, want, PartitionOf(group), group)
	}
}

func TestByName(t *testing.T) {
	for _, topic := range All() {
		require.Same(t, topic, ByName(topic.Name))
		require.True(t, Has(topic.ID))
	}
	require.Nil(t, ByName("orders"))
	require.NotEqual(t, Offsets.ID, Transactions.ID)
}
