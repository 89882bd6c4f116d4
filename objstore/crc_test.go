package objstore_test

import (
	"hash/crc32"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

func TestCombineCRC32C(t *testing.T) {
	data := objstoretest.Bytes(7, 1<<20)
	for _, first := range []int{0, 1, 21, 4096, 100_000} {
		for _, second := range []int{0, 1, 2, 255, 256, 257, 65_535, 65_536, 900_000} {
			all := data[:first+second]
			want := crc32.Checksum(all, objstore.Castagnoli)
			got := objstore.CombineCRC32C(
				crc32.Checksum(all[:first], objstore.Castagnoli),
				crc32.Checksum(all[first:], objstore.Castagnoli), int64(second))
			require.Equal(t, want, got, "%d + %d bytes", first, second)
		}
	}
}

func FuzzCombineCRC32C(f *testing.F) {
	f.Add([]byte("123456789"), []byte("x"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		got := objstore.CombineCRC32C(
			crc32.Checksum(a, objstore.Castagnoli), crc32.Checksum(b, objstore.Castagnoli), int64(len(b)))
		require.Equal(t, crc32.Checksum(append(a[:len(a):len(a)], b...), objstore.Castagnoli), got)
	})
}

func TestCheckKey(t *testing.T) {
	require.NoError(t, objstore.CheckKey("a/b-c/.d/..."))
	require.ErrorIs(t, objstore.CheckKey("a/../b"), objstore.ErrKey)
}

// BenchmarkCombineCRC32C against BenchmarkChecksum says from which size on combining pays.
func BenchmarkCombineCRC32C(b *testing.B) {
	for _, n := range []int64{300, 16 << 10, 100_000} {
		b.Run(strconv.FormatInt(n, 10), func(b *testing.B) {
			crc := uint32(0x12345678)
			for b.Loop() {
				crc = objstore.CombineCRC32C(crc|1, 0x9abcdef0, n)
			}
		})
	}
}

func BenchmarkChecksum(b *testing.B) {
	for _, n := range []int{300, 1 << 10, 2 << 10, 4 << 10, 16 << 10, 100_000} {
		data := objstoretest.Bytes(1, n)
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				crc32.Checksum(data, objstore.Castagnoli)
			}
		})
	}
}
