package docs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/docs"
)

func TestPages_AreWhatIsInTheTree(t *testing.T) {
	for name, want := range docs.Pages() {
		got, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%s is out of date: run make generate", name)
	}
}
