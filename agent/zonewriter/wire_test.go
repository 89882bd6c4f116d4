package zonewriter

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/writer"
)

// encoded is a batch as it goes over the wire, no beat heard.
func encoded(b writer.Batch) []byte {
	p := appendBatchHead(nil, &b)
	for piece := range slices.Chunk(b.Bytes, pieceBytes) {
		if len(b.Bytes) > pieceBytes {
			p = append(p, make([]byte, pieceHead)...)
		}
		p = append(p, piece...)
	}
	return p
}

func decode(p []byte) (writer.Batch, error) {
	r := bytes.NewReader(p)
	to, err := readPlace(r)
	if err != nil {
		return writer.Batch{}, err
	}
	b, _, err := to.readBatch(r, new(arena), nil, func(uint64) {})
	return b, err
}

func TestWire_Batch(t *testing.T) {
	b := batch(3, 7, 9, 1000)
	b.Latency, b.Commit.TransactionVersion, b.Commit.AsOf = writer.Fast, 1, 1<<40
	for _, size := range []int{1000, pieceBytes - 100, pieceBytes, 3 * pieceBytes} {
		whole := batch(3, 7, 9, size)
		b.Bytes, b.Commit.Bytes = whole.Bytes, whole.Commit.Bytes
		got, err := decode(encoded(b))
		require.NoError(t, err)
		require.Equal(t, b, got)
	}
}

// TestWire_NoMemoryByClaim: a length that is claimed and not sent costs no more than a piece.
func TestWire_NoMemoryByClaim(t *testing.T) {
	p := encoded(batch(0, -1, 0, 100))
	p[20] = 0x3f // the size's first byte: about 1 GiB
	allocated := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			_, err := decode(p)
			require.Error(b, err)
		}
	}).AllocedBytesPerOp()
	require.Less(t, allocated, int64(2*pieceBytes))
}

// FuzzBatch: whatever comes is refused, or a batch that the writer can rely on.
func FuzzBatch(f *testing.F) {
	f.Add(encoded(batch(0, -1, 0, 10)))
	f.Add(encoded(batch(1, 5, 6, 300)))
	f.Fuzz(func(t *testing.T, p []byte) {
		b, err := decode(p)
		if err != nil {
			return
		}
		again, err := decode(encoded(b))
		require.NoError(t, err)
		require.Equal(t, b, again)
	})
}
