package bundle_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/generation"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// Inspect returns generation.ErrOther for a bundle of another generation if its header is intact, else ErrMalformed.
func TestInspect_OfAnotherGeneration(t *testing.T) {
	data, _ := small(t)
	inspect := func(change func(data []byte), sum bool) error {
		data := bytes.Clone(data)
		change(data)
		if sum {
			binary.BigEndian.PutUint32(data[20:], crc32.Checksum(data[:20], objstore.Castagnoli))
		}
		_, err := bundle.Inspect(bytes.NewReader(data), int64(len(data)))
		return err
	}
	require.NoError(t, inspect(func([]byte) {}, true))
	for _, other := range []byte{0, generation.Number + 1, 255} {
		set := func(data []byte) { data[8] = other }
		require.ErrorIs(t, inspect(set, true), generation.ErrOther)
		require.ErrorIs(t, inspect(set, false), bundle.ErrMalformed, "the header does not match its checksum")
	}
	require.ErrorIs(t, inspect(func(data []byte) { data[9] = 3 }, true), bundle.ErrMalformed, "there is no such kind")
}
