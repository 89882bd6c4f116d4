package file

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/freshet-io/freshet/objstore"
)

// mounted returns the directory of a file system of its own, of 1 MiB.
func mounted(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a file system that can be filled needs the right to mount one: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// TestBucket_FullFileSystem fills a real file system. Writes fail as such and leave nothing behind, what was stored stays,
// and writes work again when there is room.
func TestBucket_FullFileSystem(t *testing.T) {
	dir := mounted(t)
	b, err := Open(dir)
	require.NoError(t, err)
	defer b.Close()
	put := func(key string, size int) error {
		return b.Put(t.Context(), key, objstore.NewBody(make([]byte, size)))
	}
	require.NoError(t, put("a/1", 700<<10))
	for range 3 {
		require.ErrorIs(t, put("a/2", 600<<10), objstore.ErrFull)
	}
	_, err = b.Head(t.Context(), "a/2")
	require.ErrorIs(t, err, objstore.ErrNotFound)
	u, err := b.Create(t.Context(), "a/3")
	require.NoError(t, err)
	require.ErrorIs(t, u.Part(t.Context(), 1, 0, objstore.NewBody(make([]byte, 600<<10))), objstore.ErrFull)
	require.NoError(t, u.Abort(t.Context()))
	left, err := filepath.Glob(filepath.Join(b.tmp.path, "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(b.tmp.path, lockName)}, left)

	info, err := b.Head(t.Context(), "a/1")
	require.NoError(t, err)
	require.EqualValues(t, 700<<10, info.Size)
	require.NoError(t, b.Delete(t.Context(), []string{"a/1"}))
	require.NoError(t, put("a/2", 600<<10))
}

// TestBucket_NoRoomForAnUpload: an upload that cannot be noted leaves no file.
func TestBucket_NoRoomForAnUpload(t *testing.T) {
	dir := mounted(t)
	b, err := Open(dir)
	require.NoError(t, err)
	defer b.Close()
	filler := filepath.Join(dir, "filler")
	require.ErrorIs(t, os.WriteFile(filler, make([]byte, 2<<20), 0o600), syscall.ENOSPC)
	_, err = b.Create(t.Context(), "a/1")
	require.ErrorIs(t, err, objstore.ErrFull)
	uploads, err := b.Uploads(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Empty(t, uploads)
	left, err := filepath.Glob(filepath.Join(b.tmp.path, "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(b.tmp.path, lockName)}, left)
	require.NoError(t, os.Remove(filler))
	_, err = b.Create(t.Context(), "a/1")
	require.NoError(t, err)
}

// TestBucket_ReadOnlyFileSystem remounts the file system, as kernels do after a fault of the disk.
func TestBucket_ReadOnlyFileSystem(t *testing.T) {
	dir := mounted(t)
	b, err := Open(dir)
	require.NoError(t, err)
	defer b.Close()
	body := objstore.NewBody([]byte("x"))
	require.NoError(t, b.Put(t.Context(), "a", body))
	require.NoError(t, b.tmp.lock.Close()) // a file open for writing refuses this remount, though not a fault's
	require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	require.ErrorIs(t, b.Put(t.Context(), "b", body), objstore.ErrReadOnly)
	_, err = b.Create(t.Context(), "b")
	require.ErrorIs(t, err, objstore.ErrReadOnly)
	require.ErrorIs(t, b.Delete(t.Context(), []string{"a"}), objstore.ErrReadOnly)
	_, err = b.Head(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT, ""))
	require.NoError(t, b.Put(t.Context(), "b", body))
}
