package upgrade

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/generation"
	"github.com/freshet-io/freshet/test/harness"
)

// baseFile holds the hash of the base commit.
const baseFile = "testdata/base"

// The declarations that decide whether the builds of two commits can share a cluster.
var (
	generationFile = declaration{"internal/generation/generation.go", regexp.MustCompile(`(?m)^const Number byte = (\d+)$`)}
	protocolFile   = declaration{"controlplane/api/protocol.go", regexp.MustCompile(`(?m)^const Protocol uint32 = (\d+)$`)}
)

type declaration struct {
	file    string
	pattern *regexp.Regexp
}

// of returns the number that a commit declares, 0 if it lacks the file.
func (d declaration) of(t *testing.T, c *harness.Commit) uint32 {
	t.Helper()
	source, err := c.File(d.file)
	if err != nil {
		return 0
	}
	match := d.pattern.FindSubmatch(source)
	require.NotNil(t, match, "%s of %s declares no number", d.file, c.Hash)
	number, err := strconv.ParseUint(string(match[1]), 10, 32)
	require.NoError(t, err)
	return uint32(number)
}

// baseCommit returns the base commit. The test is skipped if its build and this tree's cannot share a cluster: they are of two
// generations, or their protocols are too far apart.
func baseCommit(t *testing.T) *harness.Commit {
	t.Helper()
	name, err := os.ReadFile(baseFile)
	require.NoError(t, err)
	base := harness.FindCommit(t, strings.TrimSpace(string(name)))
	stored, protocol := generationFile.of(t, base), protocolFile.of(t, base)
	if _, ok := api.Agree(protocol, api.Protocol); !ok || stored != uint32(generation.Number) {
		t.Skipf("base commit %s is of generation %d and protocol %d, this tree of %d and %d: write the hash of a commit that shares a cluster with it to test/upgrade/%s",
			base.Hash, stored, protocol, generation.Number, api.Protocol, baseFile)
	}
	return base
}
