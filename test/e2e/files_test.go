package e2e

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// walkFiles visits the regular files below a directory.
func walkFiles(dir string, visit func(path string)) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			visit(path)
		}
		return err
	})
}

// realText writes the non-empty lines of the Go source tree's packages into a file, up to limit bytes, and gives its
// path. Empty lines are left out because kcat skips them, lines with a carriage return or that are no UTF-8 because
// the Java console tools read and write text.
func realText(t *testing.T, limit int) string {
	t.Helper()
	var text bytes.Buffer
	goroot, err := exec.Command("go", "env", "GOROOT").Output() // runtime.GOROOT is empty under -trimpath
	require.NoError(t, err)
	root := filepath.Join(strings.TrimSpace(string(goroot)), "src")
	require.NoError(t, walkFiles(root, func(path string) {
		if filepath.Ext(path) != ".go" || strings.Contains(path, "testdata") || text.Len() >= limit {
			return
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		for line := range bytes.Lines(content) {
			line = bytes.TrimRight(line, "\n")
			if len(line) > 0 && !bytes.ContainsRune(line, '\r') && bytes.Equal(bytes.ToValidUTF8(line, nil), line) {
				text.Write(line)
				text.WriteByte('\n')
			}
		}
	}))
	require.GreaterOrEqual(t, text.Len(), limit, "the Go source tree is smaller than expected")
	path := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(path, text.Bytes(), 0o600))
	return path
}

// open gives a file as a client's standard input.
func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// sum is the SHA-256 of a text, and countLines its lines.
func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

func countLines(text []byte) int { return bytes.Count(text, []byte("\n")) }

// equalText compares texts without printing megabytes.
func equalText(t *testing.T, want, got []byte) {
	t.Helper()
	if sum(want) == sum(got) {
		return
	}
	w, g := bufio.NewScanner(bytes.NewReader(want)), bufio.NewScanner(bytes.NewReader(got))
	for n := 1; w.Scan(); n++ {
		if !g.Scan() || !bytes.Equal(w.Bytes(), g.Bytes()) {
			t.Fatalf("line %d: want %q, got %q (%d lines wanted, %d got)", n, w.Bytes(), g.Bytes(), countLines(want), countLines(got))
		}
	}
	t.Fatalf("want %d bytes %s, got %d bytes %s", len(want), sum(want), len(got), sum(got))
}
