package metadata

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/hostile"
)

func TestClaimsAllocateNothing(t *testing.T) {
	t.Run("commands", func(t *testing.T) {
		hostile.Claims(t, AppendBatch(nil, everyCommand()), 128<<10, func(p []byte) { _, _ = ParseBatch(p) })
	})
	t.Run("snapshot, whole", func(t *testing.T) {
		var buf bytes.Buffer
		require.NoError(t, goldenState(t).Encode(&buf))
		p := buf.Bytes()
		hostile.Claims(t, p[:min(len(p), 400)], 1<<20, func(p []byte) { _, _ = decode(bytes.NewReader(p)) })
	})
	t.Run("snapshot, right checksums", func(t *testing.T) {
		hostile.Claims(t, payload(goldenState(t)), 1<<20, func(p []byte) {
			var buf bytes.Buffer
			w := newSectionWriter(&buf)
			w.buf = append(w.buf, p...)
			_, _ = w.end()
			_, _ = decode(&buf)
		})
	})
}
