package bundle_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/mem"
)

// later makes a bundle one of another version, whose header keeps its form.
func later(data []byte, version byte) []byte {
	data = bytes.Clone(data)
	data[8] = version
	binary.BigEndian.PutUint32(data[20:], crc32.Checksum(data[:20], objstore.Castagnoli))
	return data
}

// A bundle of a later version is told from a broken one, as long as its header is intact: nobody calls it damaged.
func TestCheckStored_LaterVersion(t *testing.T) {
	data, _ := small(t)
	unlimited := func(context.Context, int) error { return nil }
	check := func(data []byte) bundle.Finding {
		b := mem.New()
		require.NoError(t, b.Put(t.Context(), "key", objstore.NewBody(data)))
		return bundle.CheckStored(t.Context(), b, "key", name.Bundle(), int64(len(data)), unlimited)
	}
	require.Equal(t, bundle.Intact, check(data).Verdict)
	for _, version := range []byte{3, 255} {
		f := check(later(data, version))
		require.Equal(t, bundle.Later, f.Verdict, "version %d", version)
		require.NotEmpty(t, f.What)
	}
	require.Equal(t, bundle.Broken, check(later(data, 0)).Verdict, "there never was such a version")
	flipped := bytes.Clone(data)
	flipped[8] = 3
	require.Equal(t, bundle.Broken, check(flipped).Verdict, "the header does not match its checksum")
	_, err := bundle.Inspect(bytes.NewReader(later(data, 3)), int64(len(data)))
	require.ErrorIs(t, err, bundle.ErrVersion)
}
