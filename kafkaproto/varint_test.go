package kafkaproto_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/kafkaproto"
)

// TestReadVarint: varints of 32 bits have at most 5 bytes, those of 64 bits 10.
func TestReadVarint(t *testing.T) {
	reads := map[string]func(*bufio.Reader) (int64, int, error){"varint": kafkaproto.ReadVarint, "varlong": kafkaproto.ReadVarlong}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			values, most := []int64{0, -1, 1, 63, 64, -64, -65, math.MaxInt32, math.MinInt32}, 5
			if name == "varlong" {
				values, most = append(values, math.MaxInt64, math.MinInt64), 10
			}
			for _, v := range values {
				p := binary.AppendVarint(nil, v)
				got, n, err := read(bufio.NewReader(bytes.NewReader(p)))
				require.NoError(t, err)
				require.Equal(t, v, got)
				require.Len(t, p, n)
				_, n, err = read(bufio.NewReader(bytes.NewReader(p[:len(p)-1])))
				require.ErrorIs(t, err, io.EOF)
				require.Equal(t, len(p)-1, n)
			}
			_, _, err := read(bufio.NewReader(bytes.NewReader(append(bytes.Repeat([]byte{0x80}, most), 0))))
			require.Error(t, err)
			require.NotErrorIs(t, err, io.EOF)
		})
	}
}
