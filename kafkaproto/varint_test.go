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

func TestReadVarint(t *testing.T) {
	for _, v := range []int64{0, -1, 1, 63, 64, -64, -65, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64} {
		p := binary.AppendVarint(nil, v)
		got, n, err := kafkaproto.ReadVarint(bufio.NewReader(bytes.NewReader(p)))
		require.NoError(t, err)
		require.Equal(t, v, got)
		require.Len(t, p, n)
		_, n, err = kafkaproto.ReadVarint(bufio.NewReader(bytes.NewReader(p[:len(p)-1])))
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, len(p)-1, n)
	}
	_, _, err := kafkaproto.ReadVarint(bufio.NewReader(bytes.NewReader(bytes.Repeat([]byte{0x80}, 11))))
	require.Error(t, err)
	require.NotErrorIs(t, err, io.EOF)
}
