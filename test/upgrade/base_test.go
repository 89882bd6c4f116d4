package upgrade

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/generation"
	"github.com/freshet-io/freshet/test/harness"
)

const (
	// baseFile holds the hash of the base commit.
	baseFile = "testdata/base"
	// generationFile declares the generation of a commit.
	generationFile = "internal/generation/generation.go"
)

var generationNumber = regexp.MustCompile(`(?m)^const Number byte = (\d+)$`)

// baseCommit returns the base commit. The test is skipped if the base is of another generation.
func baseCommit(t *testing.T) *harness.Commit {
	t.Helper()
	name, err := os.ReadFile(baseFile)
	require.NoError(t, err)
	base := harness.FindCommit(t, strings.TrimSpace(string(name)))
	source, err := base.File(generationFile)
	require.NoError(t, err)
	match := generationNumber.FindSubmatch(source)
	require.NotNil(t, match, "%s of %s declares no generation", generationFile, base.Hash)
	number, err := strconv.ParseUint(string(match[1]), 10, 8)
	require.NoError(t, err)
	if byte(number) != generation.Number {
		t.Skipf("base commit %s is of generation %d, this tree of %d: once a commit of this generation exists, write its hash to test/upgrade/%s",
			base.Hash, number, generation.Number, baseFile)
	}
	return base
}
