package boundary

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shorter are the constants of the program under test that differ from the product: times before objects are deleted.
var shorter = []struct{ file, from, to string }{
	{"metadata/bundles_forget.go", "reviveMs = 5 * 60 * 1000", "reviveMs = 1000"},
	{"controlplane/lifecycle/config.go", "minOrphanAge = 10 * time.Minute", "minOrphanAge = 2 * time.Second"},
	{"controlplane/lifecycle/config.go", "cmp.Or(s.GarbageCheck, time.Minute)", "cmp.Or(s.GarbageCheck, time.Second)"},
}

// build builds the program under test by an overlay over this tree.
func build(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	replace := map[string]string{}
	for _, s := range shorter {
		path := filepath.Join(root, s.file)
		from := path
		if replace[path] != "" {
			from = replace[path]
		}
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(text), s.from), "%s in %s", s.from, s.file)
		replace[path] = filepath.Join(dir, strings.ReplaceAll(s.file, "/", "-"))
		require.NoError(t, os.WriteFile(replace[path], []byte(strings.Replace(string(text), s.from, s.to, 1)), 0o600))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	program := filepath.Join(dir, "freshet")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./cmd/freshet")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}
