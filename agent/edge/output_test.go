package edge

import (
	"bytes"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOutput_KeepsNothingOfAnAnswer: an answer's memory is given back when it was handed to write, though its bytes may be
// written with a later one. Whatever the sizes, all bytes come once and in order.
func TestOutput_KeepsNothingOfAnAnswer(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, seed))
	sizes := []int{0, 1, 100, smallReply - 1, smallReply, smallReply + 1, tlsRecord - 9, tlsRecord, 3 * tlsRecord, writeChunk, writeChunk + 1}
	for range 200 {
		var got, want bytes.Buffer
		o := &output{to: &got, tls: r.IntN(2) == 0}
		for range 1 + r.IntN(8) {
			some := func() []byte {
				return bytes.Repeat([]byte{byte(r.IntN(256))}, sizes[r.IntN(4+r.IntN(len(sizes)-3))])
			}
			o.header = append(o.header[:0], byte(r.IntN(256)), 1, 2, 3)
			pieces := net.Buffers{some()}
			for range r.IntN(4) {
				pieces = append(pieces, some())
			}
			want.Write(o.header)
			for _, p := range pieces {
				want.Write(p)
			}
			require.NoError(t, o.write(new(conn), pieces[0], pieces[1:]))
			for _, p := range pieces {
				clear(p)
			}
			if r.IntN(3) == 0 {
				require.NoError(t, o.flush(new(conn)))
				require.Equal(t, want.Len(), got.Len())
			}
		}
		require.NoError(t, o.flush(new(conn)))
		require.True(t, bytes.Equal(want.Bytes(), got.Bytes()))
	}
}
