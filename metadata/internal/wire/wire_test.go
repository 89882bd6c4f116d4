package wire

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReader_ReadsWhatWasWritten(t *testing.T) {
	var p []byte
	p = binary.AppendUvarint(p, math.MaxUint64)
	p = binary.AppendVarint(p, math.MinInt64)
	p = binary.AppendUvarint(p, math.MaxUint32)
	p = binary.AppendVarint(p, math.MinInt32)
	p = binary.AppendUvarint(p, math.MaxInt64)
	p = AppendString(p, "name")
	p = AppendBytes(p, []byte{1, 2})
	p = AppendBool(p, true)
	p = binary.AppendUvarint(p, 2)
	p = append(p, 8, 9)
	r := NewReader(p)
	require.Equal(t, uint64(math.MaxUint64), r.Uvarint())
	require.Equal(t, int64(math.MinInt64), r.Varint())
	require.Equal(t, uint32(math.MaxUint32), r.Uint32())
	require.Equal(t, int32(math.MinInt32), r.Int32())
	require.Equal(t, int64(math.MaxInt64), r.Offset())
	require.Equal(t, "name", r.String())
	require.Equal(t, []byte{1, 2}, r.Bytes())
	require.True(t, r.Bool())
	require.Equal(t, 2, r.Count(1))
	require.Equal(t, []byte{8, 9}, r.Take(2))
	require.NoError(t, r.Done())
}

func TestReader_RemembersItsFirstFailure(t *testing.T) {
	fails := map[string]func(*Reader){
		"32 bits":      func(r *Reader) { r.Uint32() },
		"int32":        func(r *Reader) { r.Int32() },
		"offset":       func(r *Reader) { r.Offset() },
		"bytes beyond": func(r *Reader) { r.Bytes() },
		"count beyond": func(r *Reader) { r.Count(1) },
		"take beyond":  func(r *Reader) { r.Take(100) },
		"take less":    func(r *Reader) { r.Take(-1) },
		"bool":         func(r *Reader) { r.Bool() },
		"left over":    func(r *Reader) { _ = r.Done() },
	}
	for name, read := range fails {
		r := NewReader(binary.AppendUvarint(nil, math.MaxUint64))
		read(&r)
		first := r.Err()
		require.ErrorIs(t, first, ErrMalformed, name)
		require.Zero(t, r.Uvarint())
		require.Zero(t, r.Byte())
		require.Empty(t, r.String())
		require.Equal(t, first, r.Done())
	}
}
