package docs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/docs"
)

func TestFiles_AreWhatIsInTheTree(t *testing.T) {
	root := filepath.Join("..", "..")
	files, err := docs.Files(root)
	require.NoError(t, err)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%s is out of date: run make generate", name)
	}
}
