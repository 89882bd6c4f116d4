package metalog_test

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/bytetable"
	"github.com/freshet-io/freshet/metadata/metalog"
)

func exampleRecord() metalog.Record {
	return metalog.Record{
		Entry: metalog.Entry{Index: 7, Tenure: 42, First: true, Payload: []byte("payload")},
		Nonce: 0x1122334455667788, Total: 1000,
	}
}

// The table of EncodeRecord describes a record.
func TestRecord_Golden(t *testing.T) {
	rec := exampleRecord()
	p := metalog.EncodeRecord(&rec)
	l := bytetable.New(t)
	crc := crc32.Checksum(slices.Concat(p[:34], rec.Payload), crc32.MakeTable(crc32.Castagnoli))
	l.Values = map[string]uint64{"CRC-32C of bytes 0-33 and the payload": uint64(crc)}
	l.Bytes("codec.go", "Record", p)
	l.Golden("testdata/record.golden")
	got, err := metalog.DecodeRecord(7, p)
	require.NoError(t, err)
	require.Equal(t, rec, got)
}

func TestDecodeRecord_SeesEveryFlippedBit(t *testing.T) {
	rec := exampleRecord()
	good := metalog.EncodeRecord(&rec)
	for i := range len(good) * 8 {
		p := slices.Clone(good)
		p[i/8] ^= 1 << (i % 8)
		_, err := metalog.DecodeRecord(7, p)
		require.ErrorIs(t, err, metalog.ErrCorrupt, "bit %d", i)
	}
	for n := range good {
		_, err := metalog.DecodeRecord(7, good[:n])
		require.ErrorIs(t, err, metalog.ErrCorrupt, "%d bytes", n)
	}
	_, err := metalog.DecodeRecord(8, good)
	require.ErrorIs(t, err, metalog.ErrCorrupt, "at another index")
}

// An entry of a newer program is unsupported: certainly so with flags of its own, whose checksum is right, and perhaps so with
// a later format, which may be damage too.
func TestDecodeRecord_OfANewerProgram(t *testing.T) {
	rec := exampleRecord()
	p := metalog.EncodeRecord(&rec)
	p[1] |= 4
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(crc32.Checksum(p[:34], castagnoli), castagnoli, p[38:])
	binary.BigEndian.PutUint32(p[34:], sum)
	_, err := metalog.DecodeRecord(7, p)
	require.ErrorIs(t, err, metalog.ErrUnsupported)
	require.NotErrorIs(t, err, metalog.ErrCorrupt)
	require.ErrorContains(t, err, "start a newer program")

	p = metalog.EncodeRecord(&rec)
	p[0] = 2
	_, err = metalog.DecodeRecord(7, p)
	require.ErrorIs(t, err, metalog.ErrUnsupported)
	require.ErrorIs(t, err, metalog.ErrCorrupt)
}

func TestTail_RoundTrip(t *testing.T) {
	tail := metalog.Tail{Index: 0xfedcba9876543210, Total: 1 << 40}
	got, err := metalog.DecodeTail(metalog.EncodeTail(tail))
	require.NoError(t, err)
	require.Equal(t, tail, got)
	for _, s := range []string{"", "1.2", "000000000000000g.0000000000000000", "0000000000000001 0000000000000001"} {
		_, err := metalog.DecodeTail(s)
		require.ErrorIs(t, err, metalog.ErrCorrupt, s)
	}
}

func TestAssembler_RefusesWhatNoOwnerWrote(t *testing.T) {
	part := func(index uint64, tenure int64, first, last bool) metalog.Entry {
		return metalog.Entry{Index: index, Tenure: tenure, First: first, Last: last, Payload: []byte{byte(index)}}
	}
	for name, entries := range map[string][]metalog.Entry{
		"a gap":                        {part(1, 1, true, true), part(3, 1, true, true)},
		"a part that continues none":   {part(1, 1, false, true)},
		"a part after a whole one":     {part(1, 1, true, true), part(2, 1, false, true)},
		"a part by another owner":      {part(1, 1, true, false), part(2, 2, false, true)},
		"an index before the expected": {part(1, 1, true, true), part(1, 1, true, true)},
	} {
		t.Run(name, func(t *testing.T) {
			a := metalog.NewAssembler(0)
			var err error
			for _, e := range entries {
				_, _, err = a.Add(e)
			}
			require.ErrorIs(t, err, metalog.ErrCorrupt)
		})
	}
}

func FuzzDecodeRecord(f *testing.F) {
	rec := exampleRecord()
	f.Add(uint64(7), metalog.EncodeRecord(&rec))
	f.Fuzz(func(t *testing.T, index uint64, p []byte) {
		rec, err := metalog.DecodeRecord(index, p)
		if err == nil {
			require.Equal(t, p, metalog.EncodeRecord(&rec))
		}
	})
}
