package bundle_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// later makes a bundle one of another version, whose header keeps its form.
func later(data []byte, version byte) []byte {
	data = bytes.Clone(data)
	data[8] = version
	binary.BigEndian.PutUint32(data[20:], crc32.Checksum(data[:20], objstore.Castagnoli))
	return data
}

// A bundle of a later version is told from a broken one, as long as its header is intact.
func TestInspect_LaterVersion(t *testing.T) {
	data, _ := small(t)
	inspect := func(data []byte) error {
		_, err := bundle.Inspect(bytes.NewReader(data), int64(len(data)))
		return err
	}
	require.NoError(t, inspect(data))
	for _, version := range []byte{3, 255} {
		require.ErrorIs(t, inspect(later(data, version)), bundle.ErrVersion, "version %d", version)
	}
	require.ErrorIs(t, inspect(later(data, 0)), bundle.ErrMalformed, "there never was such a version")
	flipped := bytes.Clone(data)
	flipped[8] = 3
	require.ErrorIs(t, inspect(flipped), bundle.ErrMalformed, "the header does not match its checksum")
}
