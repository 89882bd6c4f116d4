package bundle_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/hostile"
	"github.com/freshet-io/freshet/objstore/bundle"
)

func TestClaimsAllocateNothing(t *testing.T) {
	var e bundle.Encoder
	e.Reset(name)
	for i := range 3 {
		e.Section(partition(1, int32(i)))
		require.NoError(t, e.Batch(batch(1, 3, 10)))
	}
	sealed, _ := e.Finish()
	hostile.Claims(t, bytes.Join(sealed.Buffers, nil), 256<<10, func(p []byte) {
		_, _ = bundle.Inspect(bytes.NewReader(p), int64(len(p)))
	})
	hostile.Claims(t, longTable(3), 256<<10, func(p []byte) {
		_, _ = bundle.Inspect(bytes.NewReader(p), int64(len(p)))
		_, _, _ = bundle.ParseSeek(p)
	})
}
