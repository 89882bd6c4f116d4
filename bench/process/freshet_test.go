package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFreshet_VariableNamesNoFile(t *testing.T) {
	t.Setenv(FreshetVariable, filepath.Join(t.TempDir(), "nothing"))
	_, err := Freshet()
	require.ErrorContains(t, err, FreshetVariable)
}

// TestFreshet_DirectoryBeside: a directory of the program's name is no program.
func TestFreshet_DirectoryBeside(t *testing.T) {
	t.Setenv(FreshetVariable, "")
	exe, err := os.Executable()
	require.NoError(t, err)
	beside := filepath.Join(filepath.Dir(exe), "freshet")
	require.NoError(t, os.Mkdir(beside, 0o755))
	t.Cleanup(func() { require.NoError(t, os.Remove(beside)) })
	path, err := Freshet()
	require.NotEqual(t, beside, path, err)
}
