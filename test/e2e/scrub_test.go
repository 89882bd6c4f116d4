package e2e

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// TestDev_ScrubFindsAFlippedByte: an agent reads what is stored through, and the control plane tells what it has found.
func TestDev_ScrubFindsAFlippedByte(t *testing.T) {
	t.Parallel()
	bucket := t.TempDir()
	d := harness.StartDev(t, "--bucket", "file://"+bucket)
	harness.CLI(t, d.Bootstrap, strings.NewReader("needle in a haystack\n"), "produce", "t")
	d.Kill()
	found := regexp.MustCompile(`(?m)^freshet_lifecycle_damaged_bundles(\{.*\})? 1$`)
	needle, damaged := []byte("needle in a haystack"), 0
	require.NoError(t, walkFiles(bucket, func(path string) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		at := bytes.Index(content, needle)
		if at < 0 {
			return
		}
		content[at] ^= 1
		require.NoError(t, os.WriteFile(path, content, 0o600))
		damaged++
	}))
	require.Equal(t, 1, damaged)
	d.Launch()
	d.AwaitReady()
	harness.Await(t, "the damage to be found", func() bool {
		resp, err := http.Get(d.HTTP + "/metrics")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		metrics, err := io.ReadAll(resp.Body)
		return err == nil && found.Match(metrics)
	})
	require.Contains(t, d.Output(), "does not match its checksum")
}
