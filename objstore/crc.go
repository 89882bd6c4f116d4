package objstore

import "math/bits"

// CRC-32C is linear over GF(2): the checksum of A followed by B is the checksum of A, moved on over len(B) zero
// bytes, plus (xor) the checksum of B. Moving on over n bytes multiplies the checksum, taken as a polynomial, by
// x^(8n) modulo the Castagnoli polynomial (as zlib's crc32_combine does). Polynomials are bit-reflected: the highest
// bit is the coefficient of x^0.

// castagnoliReflected is the Castagnoli polynomial without its x^32.
const castagnoliReflected = 0x82f63b78

// zeroPowers[i][k] is x^(8·k·256^i) modulo the polynomial: one factor for each byte of a length below 2^32.
var zeroPowers = makeZeroPowers()

func makeZeroPowers() *[4][256]uint32 {
	var powers [4][256]uint32
	step := uint32(1) << (31 - 8) // x^8: one byte
	for i := range powers {
		powers[i][0] = 1 << 31 // x^0
		for k := 1; k < 256; k++ {
			powers[i][k] = multiply(powers[i][k-1], step)
		}
		step = multiply(powers[i][255], step)
	}
	return &powers
}

// multiply gives a·b modulo the polynomial.
func multiply(a, b uint32) uint32 {
	var product uint32
	for a != 0 {
		shift := bits.LeadingZeros32(a)
		// b·x^shift, then the next set bit of a from there.
		for range shift {
			b = b>>1 ^ castagnoliReflected&-(b&1)
		}
		product ^= b
		b = b>>1 ^ castagnoliReflected&-(b&1)
		a = a << shift << 1
	}
	return product
}

// CombineCRC32C gives the CRC-32C of two byte strings in sequence from the checksum of each and the length of the
// second, which must be below 4 GiB. It costs about as much as checksumming 2 KiB.
func CombineCRC32C(first, second uint32, secondLength int64) uint32 {
	if first == 0 {
		return second
	}
	n := uint32(secondLength)
	for i := 0; n != 0; i++ {
		if k := n & 0xff; k != 0 {
			first = multiply(zeroPowers[i][k], first)
		}
		n >>= 8
	}
	return first ^ second
}
