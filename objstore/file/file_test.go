package file_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/file"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

func open(t *testing.T, dir string) *file.Bucket {
	t.Helper()
	b, err := file.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

func TestBucket_Contract(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Bucket {
		t.Helper()
		return open(t, filepath.Join(t.TempDir(), "made", "on", "open"))
	})
}

// A directory that is not empty is what no user can remove as a file, root neither.
func TestBucket_DeleteRefused(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "refused", "below"), 0o700))
	objstoretest.Refusal(t, b, "a/refused")
}

func TestBucket_ObjectsArePlainFilesFoundAgain(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	require.NoError(t, b.Put(t.Context(), "a/b/c", objstore.NewBody([]byte("con"), []byte("tent"))))
	data, err := os.ReadFile(filepath.Join(dir, "a", "b", "c"))
	require.NoError(t, err)
	require.Equal(t, "content", string(data))
	require.NoError(t, b.Close())
	require.ErrorIs(t, open(t, dir).Put(t.Context(), "a/b/c", objstore.NewBody()), objstore.ErrAlreadyExists)
}

func TestBucket_ReservedDirectory(t *testing.T) {
	b := open(t, t.TempDir())
	require.ErrorIs(t, b.Put(t.Context(), ".tmp/x", objstore.NewBody()), objstore.ErrKey)
	require.ErrorIs(t, b.Delete(t.Context(), []string{".tmp/lock"}), objstore.ErrKey)
	page, err := b.List(t.Context(), ".tmp/", "", 10)
	require.NoError(t, err)
	require.Empty(t, page)
}

func TestBucket_ListStaysInside(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), nil, 0o600))
	b := open(t, filepath.Join(dir, "bucket"))
	for _, prefix := range []string{"../", "../s", "/", "a/../../"} {
		page, err := b.List(t.Context(), prefix, "", 10)
		require.NoError(t, err)
		require.Empty(t, page, prefix)
	}
}

func TestOpen_ClearsOnlyDeadWriters(t *testing.T) {
	dir := t.TempDir()
	alive := open(t, dir)
	live, err := filepath.Glob(filepath.Join(dir, ".tmp", "*", "lock"))
	require.NoError(t, err)
	require.Len(t, live, 1)
	unfinished := filepath.Join(filepath.Dir(live[0]), "99")
	require.NoError(t, os.WriteFile(unfinished, []byte("being written"), 0o600))
	dead := filepath.Join(dir, ".tmp", "dead")
	require.NoError(t, os.Mkdir(dead, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dead, "1"), []byte("torn"), 0o600))
	empty := filepath.Join(dir, "emptied", "earlier")
	require.NoError(t, os.MkdirAll(empty, 0o755))

	second := open(t, dir)
	require.NoDirExists(t, dead)
	require.FileExists(t, unfinished)
	require.DirExists(t, empty, "others may know this directory to exist")
	require.NoError(t, alive.Put(t.Context(), "x/y", objstore.NewBody([]byte("1"))))
	require.NoError(t, second.Put(t.Context(), "x/z", objstore.NewBody([]byte("2"))))
	require.NoError(t, alive.Close())
	require.NoError(t, second.Close())
	open(t, dir)
	require.NoDirExists(t, filepath.Dir(empty))
	require.FileExists(t, filepath.Join(dir, "x", "y"))
}

// TestBucket_UploadsOfOthers: who has the directory open too sees an upload and can abort it; who died leaves none.
func TestBucket_UploadsOfOthers(t *testing.T) {
	dir := t.TempDir()
	mine, other := open(t, dir), open(t, dir)
	u, err := mine.Create(t.Context(), "a/b")
	require.NoError(t, err)
	require.NoError(t, u.Part(t.Context(), 1, 0, objstore.NewBody([]byte("part"))))
	page, err := other.Uploads(t.Context(), "a/", "", 10)
	require.NoError(t, err)
	require.Len(t, page, 1)
	require.Equal(t, "a/b", page[0].Key)
	require.NoError(t, other.AbortUpload(t.Context(), page[0]))
	require.ErrorIs(t, u.Part(t.Context(), 1, 0, objstore.NewBody([]byte("part"))), objstore.ErrNotFound)
	require.ErrorIs(t, u.Complete(t.Context()), objstore.ErrNotFound)
	unfinished := func() []string {
		names, err := filepath.Glob(filepath.Join(dir, ".tmp", "*", "[0-9]*"))
		require.NoError(t, err)
		return names
	}
	require.Empty(t, unfinished())

	for _, id := range []string{"../a", "x", filepath.Base(filepath.Dir(someLock(t, dir))) + "/lock"} {
		_ = mine.AbortUpload(t.Context(), objstore.UploadInfo{Key: "k", ID: id})
	}
	require.FileExists(t, someLock(t, dir), "what is no upload stays")

	_, err = mine.Create(t.Context(), "a/c")
	require.NoError(t, err)
	require.Len(t, unfinished(), 2)
	require.NoError(t, mine.Close())
	page, err = other.Uploads(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Empty(t, page)
}

// someLock gives the lock of an open bucket.
func someLock(t *testing.T, dir string) string {
	t.Helper()
	locks, err := filepath.Glob(filepath.Join(dir, ".tmp", "*", "lock"))
	require.NoError(t, err)
	require.NotEmpty(t, locks)
	return locks[0]
}

// TestBucket_KilledWriter kills a process that puts objects of one repeated byte as fast as it can: whatever has its
// final name is whole, and the next open leaves nothing unfinished behind.
func TestBucket_KilledWriter(t *testing.T) {
	if dir := os.Getenv("FILE_BUCKET_WRITER"); dir != "" {
		writeForEver(t, dir)
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestBucket_KilledWriter$")
	cmd.Env = append(os.Environ(), "FILE_BUCKET_WRITER="+dir)
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		names, _ := filepath.Glob(filepath.Join(dir, "d*", "*"))
		return len(names) >= 10
	}, 2*time.Minute, time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())

	b := open(t, dir)
	page, err := b.List(t.Context(), "", "", 1000)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(page), 10)
	for _, info := range page {
		require.EqualValues(t, writerBytes, info.Size, info.Key)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".tmp", "*", "[0-9]*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

const writerBytes = 300_000

func writeForEver(t *testing.T, dir string) {
	t.Helper()
	b := open(t, dir)
	body := objstore.NewBody(objstoretest.Bytes(1, writerBytes))
	for i := 0; ; i++ {
		require.NoError(t, b.Put(t.Context(), fmt.Sprintf("d%d/%d", i%7, i), body))
	}
}
