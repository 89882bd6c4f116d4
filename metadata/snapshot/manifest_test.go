package snapshot

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/bytetable"
	"github.com/freshet-io/freshet/metadata/metalog"
)

// The table of the package comment describes a manifest.
func TestManifest_Golden(t *testing.T) {
	m := &manifest{
		Format: manifestFormat, Index: 42, Hash: formatHash(0x1234), Bytes: PartBytes + 7,
		Parts: []part{{Bytes: PartBytes, CRC: 1}, {Bytes: 7, CRC: 1<<32 - 1}},
	}
	p, err := json.Marshal(m)
	require.NoError(t, err)
	l := bytetable.New(t)
	l.JSON("snapshot.go", "Manifest", p)
	l.Golden("testdata/manifest.golden")
	got, err := parseManifest(p, metalog.SnapshotRef{Index: 42})
	require.NoError(t, err)
	require.Equal(t, m, got)
}
