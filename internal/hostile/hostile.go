// Package hostile feeds decoders input that claims more than it holds.
package hostile

import (
	"bytes"
	"runtime"
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
	worst, at := uint64(0), 0
	for i := range valid {
		for _, claim := range claims {
			whole := append(bytes.Clone(valid[:i]), claim...)
			cut := bytes.Clone(whole)
			if len(whole) < len(valid) {
				whole = append(whole, valid[len(whole):]...)
			}
			for _, p := range [][]byte{whole, cut} {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				decode(p)
				runtime.ReadMemStats(&after)
				if n := after.TotalAlloc - before.TotalAlloc; n > worst {
					worst, at = n, i
				}
			}
		}
	}
	if worst > limit {
		t.Fatalf("a claim at byte %d of %d makes the decoder allocate %d bytes, more than %d", at, len(valid), worst, limit)
	}
	t.Logf("%d bytes of input, at most %d allocated", len(valid), worst)
}
