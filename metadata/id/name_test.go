package id_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/id"
)

func TestValidVirtualCluster(t *testing.T) {
	for _, name := range []string{"a", "Main-1_x.y", strings.Repeat("a", id.MaxVirtualClusterName)} {
		require.True(t, id.ValidVirtualCluster(name), name)
	}
	for _, name := range []string{"", ".", "..", "a b", "a/b", "+a", "ä", strings.Repeat("a", id.MaxVirtualClusterName+1)} {
		require.False(t, id.ValidVirtualCluster(name), name)
	}
}
