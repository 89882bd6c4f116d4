// Package hostile feeds decoders input that claims more than it holds.
//
// Allocations are measured with runtime.MemStats.TotalAlloc, which counts the whole process. Tests that call this package
// must not run in parallel with other tests of their package.
package hostile

import (
	"runtime"
	"slices"
	"testing"
)

// claims are large numbers in the encodings that the decoders know: varints of 31 and 63 bits, and fixed integers of
// either byte order.
var claims = [][]byte{
	{0xff, 0xff, 0xff, 0xff, 0x07},
	{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
	{0x7f, 0xff, 0xff, 0xff},
	{0xff, 0xff, 0xff, 0x7f},
}

// Claims writes a large number over every place of a valid input, with the rest after it and without, and fails if
// decoding any of these allocates more than limit bytes.
func Claims(t *testing.T, valid []byte, limit uint64, decode func([]byte)) {
	t.Helper()
	decode(valid) // what is made once
	together := allocated(decode, valid) <= limit/16
	for i := range valid {
		lying := claimed(valid, i)
		if together && allocated(decode, lying...) <= limit { // to look stops the world
			continue
		}
		for _, p := range lying {
			if n := allocated(decode, p); n > limit {
				t.Fatalf("a claim at byte %d of %d makes the decoder allocate %d bytes, more than %d", i, len(valid), n, limit)
			}
		}
	}
}

// claimed writes each of the claims over a place of a valid input.
func claimed(valid []byte, at int) (all [][]byte) {
	for _, claim := range claims {
		cut := slices.Concat(valid[:at], claim)
		whole := slices.Concat(cut, valid[min(len(cut), len(valid)):])
		all = append(all, whole, cut)
	}
	return all
}

// Allocated returns the number of bytes that f allocates, measured with the world stopped.
func Allocated(f func()) uint64 {
	return allocated(func([]byte) { f() }, nil)
}

// allocated is how many bytes decoding takes.
func allocated(decode func([]byte), inputs ...[]byte) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, p := range inputs {
		decode(p)
	}
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
