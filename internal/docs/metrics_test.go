package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every package with metrics is on the page.
func TestMetrics_NoPackageIsLeftOut(t *testing.T) {
	const root = "../.."
	listed := map[string]bool{}
	for _, m := range measured {
		listed[m.dir] = true
	}
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Base(path) == "metrics.golden" {
			dir := filepath.Dir(filepath.Dir(path))
			require.True(t, listed[dir], "metrics of %s are not on the page", dir)
		}
		return err
	}))
}
