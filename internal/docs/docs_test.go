package docs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/docs"
)

func TestPages_AreWhatIsInTheTree(t *testing.T) {
	pages := docs.Pages()
	metrics, err := docs.Metrics(filepath.Join("..", ".."))
	require.NoError(t, err)
	pages["metrics.md"] = metrics
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%s is out of date: run make generate", name)
	}
}
