package bundle_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore/bundle"
)

func TestCheck_EveryFlippedBitIsFound(t *testing.T) {
	data, _ := small(t)
	got, err := bundle.Check(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, name, got)
	for i := range data {
		data[i] ^= 4
		_, err := bundle.Check(bytes.NewReader(data), int64(len(data)))
		require.ErrorIs(t, err, bundle.ErrMalformed, "byte %d", i)
		data[i] ^= 4
	}
	for n := range data {
		_, err := bundle.Check(bytes.NewReader(data[:n]), int64(n))
		require.ErrorIs(t, err, bundle.ErrMalformed, "cut to %d bytes", n)
	}
}
