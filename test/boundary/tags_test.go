package boundary

import (
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTags_Found: a value is found in any bytes and in the encodings of log lines, and other random text is not.
func TestTags_Found(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	value := random(r, 64)
	s := newTags()
	require.Empty(t, s.search(value))
	for range 300_000 {
		s.add("value", random(r, 64))
	}
	require.Empty(t, s.search(random(r, 1<<20)))
	s.add("value", value)
	for i, in := range [][]byte{
		value, append([]byte("\x00\xff12"), value[:tagBytes]...), []byte("abc" + hex.EncodeToString(value)),
		[]byte(`"value":"` + base64.StdEncoding.EncodeToString(append([]byte{250}, value...)) + `"`), []byte("AB" + base64.URLEncoding.EncodeToString(value)),
	} {
		require.Contains(t, s.search(in), "value", "case %d", i)
	}
}
