package file

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/freshet-io/freshet/objstore"
)

// writeErrors are the file system's errors that mean one of the bucket's, whichever call of a write they come from. A file
// system that allocates late, as network file systems do, reports a full disk by sync or close only.
var writeErrors = []struct {
	errno    syscall.Errno
	sentinel error
}{
	{syscall.ENOSPC, objstore.ErrFull},
	{syscall.EDQUOT, objstore.ErrFull},
	{syscall.EROFS, objstore.ErrReadOnly},
}

// mapWrite adds the bucket's sentinel to the file system's error of a write. It leaves an unknown outcome as it is.
func mapWrite(err error) error {
	if errors.Is(err, objstore.ErrOutcomeUnknown) {
		return err
	}
	for _, e := range writeErrors {
		if errors.Is(err, e.errno) {
			return fmt.Errorf("%w: %w", e.sentinel, err)
		}
	}
	return err
}
