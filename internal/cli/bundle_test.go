package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/cli"
)

// golden is a bundle kept as an example of its version, as a hex dump.
func golden(t *testing.T) []byte {
	t.Helper()
	dump, err := os.ReadFile("../../objstore/bundle/testdata/agent.hex")
	require.NoError(t, err)
	var content []byte
	for line := range strings.Lines(string(dump)) {
		columns, _, _ := strings.Cut(line, "|")
		for _, b := range strings.Fields(columns)[1:] {
			n, err := strconv.ParseUint(b, 16, 8)
			require.NoError(t, err)
			content = append(content, byte(n))
		}
	}
	return content
}

func TestInspectBundles(t *testing.T) {
	content := golden(t)
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "whole"), content, 0o600))
	content[len(content)/2] ^= 1
	broken := filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(broken, content, 0o600))

	var file, key bytes.Buffer
	require.NoError(t, cli.InspectBundles(t.Context(), cli.BundleConfig{Names: []string{filepath.Join(dir, "a", "whole")}}, cli.Streams{Out: &file}))
	require.Contains(t, file.String(), "bundle ")
	require.Contains(t, file.String(), "section ")
	inBucket := cli.BundleConfig{BucketURL: "file://" + dir, Names: []string{"a/whole"}}
	require.NoError(t, cli.InspectBundles(t.Context(), inBucket, cli.Streams{Out: &key}))
	_, fromFile, _ := bytes.Cut(file.Bytes(), []byte("\n"))
	_, fromKey, _ := bytes.Cut(key.Bytes(), []byte("\n"))
	require.Equal(t, string(fromFile), string(fromKey))

	err := cli.InspectBundles(t.Context(), cli.BundleConfig{Names: []string{broken, filepath.Join(dir, "absent")}}, cli.Streams{Out: &file})
	require.ErrorContains(t, err, "broken: ")
	file.Reset()
	err = cli.InspectBundles(t.Context(), cli.BundleConfig{Names: []string{filepath.Join(dir, "a", "whole"), broken}}, cli.Streams{Out: &file, Format: cli.FormatJSON})
	require.ErrorContains(t, err, "broken: ")
	var found []struct {
		Name, Fault string
		Sections    []struct {
			Batches []struct {
				Records int
				Intact  bool
			}
		}
	}
	require.NoError(t, json.Unmarshal(file.Bytes(), &found))
	require.Equal(t, filepath.Join(dir, "a", "whole"), found[0].Name)
	require.Empty(t, found[0].Fault)
	require.Positive(t, found[0].Sections[0].Batches[0].Records)
	require.True(t, found[0].Sections[0].Batches[0].Intact)
	require.Contains(t, found[1].Fault, "checksum")

	err = cli.InspectBundles(t.Context(), cli.BundleConfig{Names: []string{broken, filepath.Join(dir, "absent")}}, cli.Streams{Out: &file})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestListBundles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	var out bytes.Buffer
	require.NoError(t, cli.ListBundles(t.Context(), cli.BundleConfig{BucketURL: "file://" + dir}, cli.Streams{Out: &out}))
	require.Regexp(t, `(?s)^ *1 +20\S+Z +a\n *1 .* b\n *1 .* c\n$`, out.String())
}
