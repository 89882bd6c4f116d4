package recode

import (
	"context"
	"errors"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/semaphore"
)

const (
	// ordinaryRoom is the most a decompressor may take, bytes, outside the large turn: zstd's window up to level 19
	// (ZSTD_defaultCParameters; levels 20 to 22 have 32 to 128 MiB), and that of Go's encoder. gzip (32 KiB) and lz4 (8 MiB)
	// never take more.
	ordinaryRoom = 8 << 20
	// largeRoom leaves the bounds to the codecs: zstdMaxWindow, and what snappy's blocks may claim.
	largeRoom = math.MaxInt64
)

// largeTurn is for one batch of the process, whoever opens it, whose decompressor takes more than ordinaryRoom.
// Few are such; and a zstd window is taken at the first block, however small the batch is.
var largeTurn = semaphore.NewWeighted(1)

// errLarge is returned when a batch needs more than ordinaryRoom.
var errLarge = errors.New("batch takes more than 8 MiB to decompress")

// withRoom calls open with ordinaryRoom and, if that returns errLarge, again with largeRoom in the large turn. open holds
// nothing that others wait for when it returns errLarge, so other batches pass those that wait for the large turn.
func withRoom(ctx context.Context, open func(room int64) error) error {
	err := open(ordinaryRoom)
	if !errors.Is(err, errLarge) {
		return err
	}
	if err := largeTurn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer largeTurn.Release(1)
	return open(largeRoom)
}

// ordinaryZstd returns errLarge for a frame whose window is above ordinaryRoom.
type ordinaryZstd struct{ io.ReadCloser }

func (r ordinaryZstd) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	// The window of a frame of a single segment is its content.
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		err = errLarge
	}
	return n, err
}
