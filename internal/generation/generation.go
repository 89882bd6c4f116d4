// Package generation numbers the formats of everything that is stored: snapshots and log batches of the metadata, and bundles.
package generation

import (
	"errors"
	"fmt"
)

// Number is this program's generation. Until the first release, every change of a stored format raises it, and testdata/golden
// holds the golden files of a generation fast. A replica refuses logs and snapshots of any other generation. Fetch and compaction
// read batches without a check.
const Number byte = 3

// ErrOther is returned when stored data has another generation than this program.
var ErrOther = errors.New("stored by a program of another generation")

// Check returns an error that wraps ErrOther unless stored is Number. Its text advises the operator.
func Check(stored byte) error {
	if stored == Number {
		return nil
	}
	return fmt.Errorf("%w: it is %d, this program reads %d: run the program that wrote it, or begin with an empty bucket prefix, etcd prefix and data directory",
		ErrOther, stored, Number)
}
