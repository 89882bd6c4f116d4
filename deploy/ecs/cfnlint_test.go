package ecs

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCfnLint: cfn-lint accepts the template, and refuses a copy with a misspelt property and one without a required property.
func TestCfnLint(t *testing.T) {
	program := os.Getenv("FRESHET_CFN_LINT")
	if program == "" {
		t.Skip("FRESHET_CFN_LINT names no cfn-lint: run make lint-deploy")
	}
	text, dir := source(t), t.TempDir()
	copied := func(name, old, planted string) string {
		require.Contains(t, text, old)
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, old, planted)), 0o600))
		return path
	}
	misspelt := copied("misspelt.yaml", "ReadonlyRootFilesystem", "ReadOnlyRootFilesystem")
	missing := copied("missing.yaml", "      GroupDescription: Agents of Freshet\n", "")
	began := time.Now()
	out, err := exec.CommandContext(t.Context(), program, "--format", "json", file, misspelt, missing).Output()
	t.Logf("cfn-lint of three templates took %v", time.Since(began).Round(100*time.Millisecond))
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v", err)
	var matches []struct {
		Filename, Message string
		Rule              struct{ ID string }
	}
	require.NoError(t, json.Unmarshal(out, &matches), "%s\n%s", out, exit.Stderr)
	found := map[string]string{}
	for _, m := range matches {
		found[m.Filename] += m.Rule.ID + " " + m.Message + "\n"
	}
	require.Empty(t, found[file])
	require.Contains(t, found[misspelt], "'ReadOnlyRootFilesystem' was unexpected")
	require.Contains(t, found[missing], "E3003 'GroupDescription' is a required property")
}
