package edge

import (
	"math/bits"
	"sync"
)

// Frame buffers come in size classes: four per power of two, so that a buffer is at most a quarter larger than what
// it is for.
const (
	minClassBits = 9 // 512 bytes
	classes      = 4 * (31 - minClassBits)
)

var pools [classes]sync.Pool // of *[]byte

// classOf gives the number of the smallest class that holds n bytes, and its size.
func classOf(n int) (class, size int) {
	if n <= 1<<minClassBits {
		return 0, 1 << minClassBits
	}
	octave := bits.Len(uint(n-1)) - 1 // 2^octave < n <= 2^(octave+1)
	step := 1 << (octave - 2)
	quarter := (n - 1 - 1<<octave) / step // 0-3
	return (octave-minClassBits)*4 + quarter + 1, 1<<octave + (quarter+1)*step
}

// getBuffer gives a buffer whose capacity is the class size for n bytes, of unknown content.
func getBuffer(n int) *[]byte {
	class, size := classOf(n)
	if class >= classes {
		p := make([]byte, size)
		return &p
	}
	if p, _ := pools[class].Get().(*[]byte); p != nil {
		return p
	}
	p := make([]byte, size)
	return &p
}

// putBuffer gives a buffer of getBuffer back.
func putBuffer(p *[]byte) {
	if class, _ := classOf(cap(*p)); class < classes {
		pools[class].Put(p)
	}
}
