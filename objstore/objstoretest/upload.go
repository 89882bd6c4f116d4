package objstoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
)

// uploadCases are the contract of uploads in parts.
var uploadCases = []contractCase{
	{"upload in parts", testUpload},
	{"an upload shows nothing before it is complete", testUploadInvisible},
	{"an upload never replaces", testUploadCreateOnly},
	{"one of many concurrent uploads wins", testConcurrentUploads},
	{"parts side by side", testPartsSideBySide},
	{"wrong parts are refused", testWrongParts},
	{"a part given again replaces what it was", testPartAgain},
	{"an aborted upload is gone", testUploadAborted},
	{"uploads are listed and can be aborted by name", testUploads},
	{"uploads of one key stay together in pages", testUploadsOfOneKey},
	{"buffers are free after a part", testPartBuffersFree},
	{"an upload whose context ended", testUploadContext},
}

func mustCreate(t *testing.T, b objstore.Bucket, key string) objstore.Upload {
	t.Helper()
	u, err := b.Create(t.Context(), key)
	require.NoError(t, err)
	return u
}

func mustUpload(t *testing.T, b objstore.Bucket, key string, parts ...[]byte) objstore.Upload {
	t.Helper()
	u := mustCreate(t, b, key)
	offset := int64(0)
	for i, p := range parts {
		require.NoError(t, u.Part(t.Context(), i+1, offset, objstore.NewBody(p)))
		offset += int64(len(p))
	}
	return u
}

func testUpload(t *testing.T, b objstore.Bucket) {
	t.Helper()
	data := Bytes(3, objstore.MinPart+1000)
	u := mustCreate(t, b, "up/load")
	first := data[:objstore.MinPart]
	require.NoError(t, u.Part(t.Context(), 1, 0, objstore.NewBody(first[:7], nil, first[7:])))
	require.NoError(t, u.Part(t.Context(), 2, objstore.MinPart, objstore.NewBody(data[objstore.MinPart:])))
	require.NoError(t, u.Complete(t.Context()))
	require.True(t, bytes.Equal(data, mustGet(t, b, "up/load", 0, -1)))
	require.True(t, bytes.Equal(data[len(data)-1500:], mustGet(t, b, "up/load", int64(len(data)-1500), -1)))

	info, err := b.Head(t.Context(), "up/load")
	require.NoError(t, err)
	require.EqualValues(t, len(data), info.Size)
	if info.HasCRC {
		require.Equal(t, objstore.NewBody(data).CRC32C, info.CRC32C)
	}
	if err := u.Complete(t.Context()); err != nil && !errors.Is(err, objstore.ErrAlreadyExists) {
		require.ErrorIs(t, err, objstore.ErrNotFound, "completed twice")
	}
	require.NoError(t, u.Abort(t.Context()), "too late to abort, and harmless")
	require.True(t, bytes.Equal(data, mustGet(t, b, "up/load", 0, -1)))

	require.NoError(t, mustUpload(t, b, "up/small", []byte("x")).Complete(t.Context()))
	require.Equal(t, "x", string(mustGet(t, b, "up/small", 0, -1)))
	require.Empty(t, uploads(t, b, "", 10))
}

func testUploadInvisible(t *testing.T, b objstore.Bucket) {
	t.Helper()
	u := mustUpload(t, b, "dir/hidden", []byte("not yet"))
	_, err := b.Head(t.Context(), "dir/hidden")
	require.ErrorIs(t, err, objstore.ErrNotFound)
	_, err = Get(t.Context(), b, "dir/hidden", 0, -1)
	require.ErrorIs(t, err, objstore.ErrNotFound)
	page, err := b.List(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Empty(t, page)
	require.NoError(t, u.Complete(t.Context()))
	page, err = b.List(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Len(t, page, 1)
}

func testUploadCreateOnly(t *testing.T, b objstore.Bucket) {
	t.Helper()
	early := mustUpload(t, b, "k", []byte("early"))
	mustPut(t, b, "k", []byte("put"))
	late := mustUpload(t, b, "k", []byte("late"))
	for _, u := range []objstore.Upload{early, late, early} {
		require.ErrorIs(t, u.Complete(t.Context()), objstore.ErrAlreadyExists)
	}
	require.Equal(t, "put", string(mustGet(t, b, "k", 0, -1)))
	require.Len(t, uploads(t, b, "", 10), 2)
	require.NoError(t, early.Abort(t.Context()))
	require.NoError(t, late.Abort(t.Context()))
	require.Empty(t, uploads(t, b, "", 10))
	require.NoError(t, mustUpload(t, b, "by-upload", []byte("upload")).Complete(t.Context()))
	require.ErrorIs(t, b.Put(t.Context(), "by-upload", objstore.NewBody([]byte("put"))), objstore.ErrAlreadyExists)
}

func testConcurrentUploads(t *testing.T, b objstore.Bucket) {
	t.Helper()
	const writers = 6
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		u := mustUpload(t, b, "new/raced", Bytes(uint64(i), 10_000))
		wg.Go(func() {
			if errs[i] = u.Complete(t.Context()); errs[i] != nil {
				errs[i] = errors.Join(errs[i], u.Abort(t.Context()))
			}
		})
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil:
			require.Equal(t, -1, winner, "two uploads won")
			winner = i
		case !errors.Is(err, objstore.ErrAlreadyExists) && !errors.Is(err, objstore.ErrConflict):
			t.Errorf("upload %d: %v", i, err)
		}
	}
	require.GreaterOrEqual(t, winner, 0, "nobody won: %v", errs)
	require.True(t, bytes.Equal(Bytes(uint64(winner), 10_000), mustGet(t, b, "new/raced", 0, -1)))
}

// testPartsSideBySide gives parts of several sizes at once, the last ones first, each overwriting its buffer when its
// part is there.
func testPartsSideBySide(t *testing.T, b objstore.Bucket) {
	t.Helper()
	sizes := []int{objstore.MinPart, objstore.MinPart + 4097, 999}
	u := mustCreate(t, b, "side/by/side")
	var group sync.WaitGroup
	errs := make([]error, len(sizes))
	offset := int64(0)
	var starts []func()
	for i, size := range sizes {
		at := offset
		offset += int64(size)
		starts = append(starts, func() {
			group.Go(func() {
				data := Bytes(uint64(i), size)
				errs[i] = u.Part(t.Context(), i+1, at, objstore.NewBody(data[:100], data[100:]))
				clear(data)
			})
		})
	}
	for _, start := range slices.Backward(starts) {
		start()
	}
	group.Wait()
	require.NoError(t, errors.Join(errs...))
	require.NoError(t, u.Complete(t.Context()))
	offset = 0
	for i, size := range sizes {
		require.True(t, bytes.Equal(Bytes(uint64(i), size), mustGet(t, b, "side/by/side", offset, int64(size))), "part %d", i+1)
		offset += int64(size)
	}
	info, err := b.Head(t.Context(), "side/by/side")
	require.NoError(t, err)
	require.Equal(t, offset, info.Size)
}

func testWrongParts(t *testing.T, b objstore.Bucket) {
	t.Helper()
	u := mustCreate(t, b, "k")
	require.Error(t, u.Complete(t.Context()), "no parts")
	require.Error(t, u.Part(t.Context(), 1, 0, objstore.NewBody()), "an empty part")
	good := objstore.NewBody([]byte("good"))
	for _, number := range []int{-1, 0, objstore.MaxParts + 1} {
		require.Error(t, u.Part(t.Context(), number, 0, good), "part %d", number)
	}
	require.Error(t, u.Part(t.Context(), 1, 1, good), "a first part behind the beginning")
	require.Error(t, u.Part(t.Context(), 2, objstore.MinPart-1, good), "behind a short part")
	flipped, longer := good, good
	flipped.CRC32C ^= 1
	longer.Size++
	require.ErrorIs(t, u.Part(t.Context(), 1, 0, flipped), objstore.ErrChecksum)
	require.Error(t, u.Part(t.Context(), 1, 0, longer))
	require.NoError(t, u.Part(t.Context(), 2, objstore.MinPart, good))
	require.Error(t, u.Complete(t.Context()), "part 1 is missing")
	require.NoError(t, u.Part(t.Context(), 1, 0, good))
	require.Error(t, u.Complete(t.Context()), "part 1 is short")
	require.NoError(t, u.Part(t.Context(), 1, 0, objstore.NewBody(Bytes(1, objstore.MinPart))))
	require.NoError(t, u.Complete(t.Context()))
	require.Equal(t, "good", string(mustGet(t, b, "k", objstore.MinPart, -1)))

	u = mustCreate(t, b, "overlap")
	require.NoError(t, u.Part(t.Context(), 1, 0, objstore.NewBody(Bytes(1, objstore.MinPart+1))))
	require.NoError(t, u.Part(t.Context(), 2, objstore.MinPart, good))
	require.Error(t, u.Complete(t.Context()), "part 1 reaches into part 2")
	require.NoError(t, u.Abort(t.Context()))
}

func testPartAgain(t *testing.T, b objstore.Bucket) {
	t.Helper()
	first := Bytes(1, objstore.MinPart)
	u := mustUpload(t, b, "k", Bytes(2, objstore.MinPart+77))
	require.NoError(t, u.Part(t.Context(), 1, 0, objstore.NewBody(first)))
	wrong := objstore.NewBody(Bytes(3, 9_000))
	wrong.CRC32C ^= 1
	require.ErrorIs(t, u.Part(t.Context(), 2, objstore.MinPart, wrong), objstore.ErrChecksum)
	require.NoError(t, u.Part(t.Context(), 2, objstore.MinPart, objstore.NewBody(Bytes(3, 500))))
	require.NoError(t, u.Part(t.Context(), 2, objstore.MinPart, objstore.NewBody([]byte("end"))))
	require.NoError(t, u.Part(t.Context(), 1, 0, objstore.NewBody(first)), "an earlier part")
	require.NoError(t, u.Complete(t.Context()))
	require.True(t, bytes.Equal(append(first, "end"...), mustGet(t, b, "k", 0, -1)))
}

func testUploadAborted(t *testing.T, b objstore.Bucket) {
	t.Helper()
	u := mustUpload(t, b, "k", Bytes(1, objstore.MinPart))
	for range 2 {
		require.NoError(t, u.Abort(t.Context()))
	}
	require.ErrorIs(t, u.Part(t.Context(), 2, objstore.MinPart, objstore.NewBody([]byte("x"))), objstore.ErrNotFound)
	require.ErrorIs(t, u.Complete(t.Context()), objstore.ErrNotFound)
	_, err := b.Head(t.Context(), "k")
	require.ErrorIs(t, err, objstore.ErrNotFound)
	require.Empty(t, uploads(t, b, "", 10))
}

// uploads gives the keys of all uploads under the prefix, by pages.
func uploads(t *testing.T, b objstore.Bucket, prefix string, limit int) []string {
	t.Helper()
	var keys []string
	startAfter := ""
	for {
		page, err := b.Uploads(t.Context(), prefix, startAfter, limit)
		require.NoError(t, err)
		if len(page) == 0 {
			return keys
		}
		for _, info := range page {
			require.NotEmpty(t, info.ID)
			require.WithinDuration(t, time.Now(), info.Initiated, time.Minute)
			keys = append(keys, info.Key)
		}
		startAfter = page[len(page)-1].Key
		require.Less(t, len(keys), 1000, "listing does not end")
	}
}

func testUploads(t *testing.T, b objstore.Bucket) {
	t.Helper()
	keys := []string{"a-b", "a/1", "a/2/x", "a0", "b/1"}
	open := make(map[string]objstore.Upload)
	for _, key := range keys {
		open[key] = mustUpload(t, b, key, []byte(key))
	}
	mustPut(t, b, "a/object", []byte("no upload"))
	for _, limit := range []int{1, 2, 1000} {
		require.Equal(t, keys, uploads(t, b, "", limit))
		require.Equal(t, keys[1:3], uploads(t, b, "a/", limit))
	}
	require.Empty(t, uploads(t, b, "c", 10))
	_, err := b.Uploads(t.Context(), "", "", 0)
	require.Error(t, err)

	page, err := b.Uploads(t.Context(), "a/", "a/1", 10)
	require.NoError(t, err)
	require.Len(t, page, 1)
	for range 2 {
		require.NoError(t, b.AbortUpload(t.Context(), page[0]))
	}
	require.ErrorIs(t, open["a/2/x"].Complete(t.Context()), objstore.ErrNotFound)
	require.NoError(t, open["a/1"].Complete(t.Context()))
	require.Equal(t, []string{"a-b", "a0", "b/1"}, uploads(t, b, "", 10))
}

func testUploadsOfOneKey(t *testing.T, b objstore.Bucket) {
	t.Helper()
	for _, key := range []string{"a", "b", "b", "b", "c"} {
		mustCreate(t, b, key)
	}
	require.Equal(t, []string{"a", "b", "b", "b", "c"}, uploads(t, b, "", 3))
	seen := 0
	for range 10 { // aborting what a page shows brings the rest of a key forth
		page, err := b.Uploads(t.Context(), "", "", 2)
		require.NoError(t, err)
		seen += len(page)
		for _, info := range page {
			require.NoError(t, b.AbortUpload(t.Context(), info))
		}
	}
	require.Equal(t, 5, seen)
}

// testPartBuffersFree overwrites the buffers as soon as each part returned, some being cut short.
func testPartBuffersFree(t *testing.T, b objstore.Bucket) {
	t.Helper()
	u := mustCreate(t, b, "k")
	for i := range 3 {
		data := Bytes(uint64(i), objstore.MinPart)
		ctx, cancel := context.WithCancel(t.Context())
		stop := time.AfterFunc(time.Duration(i)*time.Millisecond, cancel)
		for err := context.Canceled; errors.Is(err, context.Canceled); {
			err = u.Part(ctx, i+1, int64(i)*objstore.MinPart, objstore.NewBody(data[:1000], data[1000:]))
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
				ctx = t.Context()
			}
		}
		stop.Stop()
		cancel()
		for j := 0; j < len(data); j += 61 {
			data[j] ^= 0xdb
		}
	}
	require.NoError(t, u.Complete(t.Context()))
	for i := range 3 {
		got := mustGet(t, b, "k", int64(i)*objstore.MinPart, objstore.MinPart)
		require.True(t, bytes.Equal(Bytes(uint64(i), objstore.MinPart), got), fmt.Sprintf("part %d is torn", i))
	}
}

func testUploadContext(t *testing.T, b objstore.Bucket) {
	t.Helper()
	u := mustUpload(t, b, "k", []byte("x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Create(ctx, "k")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, u.Part(ctx, 1, 0, objstore.NewBody([]byte("y"))), context.Canceled)
	require.ErrorIs(t, u.Complete(ctx), context.Canceled)
	require.ErrorIs(t, u.Abort(ctx), context.Canceled)
	_, err = b.Uploads(ctx, "", "", 1)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, b.AbortUpload(ctx, objstore.UploadInfo{Key: "k", ID: "x"}), context.Canceled)
	_, err = b.Create(t.Context(), "a//b")
	require.ErrorIs(t, err, objstore.ErrKey)
	require.NoError(t, u.Complete(t.Context()))
}
