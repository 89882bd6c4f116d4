// Package generation numbers the formats of everything that is stored: snapshots and log batches of the metadata, and bundles.
package generation

import (
	"errors"
	"fmt"
)

// Number is this program's generation. Until the first release every change of a stored format raises it, and no program reads
// another generation than its own. The first release is generation 1.
const Number byte = 107

// ErrOther is the base of Check's error.
var ErrOther = errors.New("stored by a program of another generation")

// Check returns an error, which says what to do, unless stored is Number.
func Check(stored byte) error {
	if stored == Number {
		return nil
	}
	return fmt.Errorf("%w: it is %d, this program reads %d: run the program that wrote it, or begin with an empty bucket prefix, etcd prefix and data directory",
		ErrOther, stored, Number)
}
