package file

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
)

func TestMapWrite(t *testing.T) {
	failed := func(errno syscall.Errno) error { return &fs.PathError{Op: "write", Path: "x", Err: errno} }
	for _, c := range []struct{ err, want error }{
		{failed(syscall.ENOSPC), objstore.ErrFull},
		{failed(syscall.EDQUOT), objstore.ErrFull},
		{failed(syscall.EROFS), objstore.ErrReadOnly},
		{failed(syscall.EIO), nil},
		{errors.Join(objstore.ErrOutcomeUnknown, failed(syscall.ENOSPC)), objstore.ErrOutcomeUnknown},
	} {
		err := mapWrite(c.err)
		require.ErrorIs(t, err, c.err)
		for _, s := range []error{objstore.ErrFull, objstore.ErrReadOnly, objstore.ErrOutcomeUnknown} {
			require.Equal(t, errors.Is(c.want, s), errors.Is(err, s), "%v: %v", c.err, s)
		}
	}
}
