// Package objstoretest is the contract of objstore.Bucket as one test that every provider passes.
package objstoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
)

// Run tests the contract on buckets that open gives, an empty one per call.
func Run(t *testing.T, open func(t *testing.T) objstore.Bucket) {
	t.Helper()
	RunRepeating(t, open)
	t.Run("put refuses even the bytes that are there", func(t *testing.T) { testSameBytes(t, open(t)) })
}

// RunRepeating is Run for buckets that may send a put more than once: they cannot tell an object with the same bytes
// from what their own first request made.
func RunRepeating(t *testing.T, open func(t *testing.T) objstore.Bucket) {
	t.Helper()
	cases := append([]contractCase{
		{"put of several buffers, read by range", testRanges},
		{"empty object", testEmpty},
		{"put never replaces", testCreateOnly},
		{"one of many concurrent puts wins", testConcurrentPuts},
		{"wrong checksum is refused", testChecksum},
		{"wrong size is refused", testSize},
		{"missing object", testMissing},
		{"head gives size and checksum", testHead},
		{"list is in key order, by pages", testListPages},
		{"list by prefix and start", testListBounds},
		{"delete", testDelete},
		{"invalid keys and limits", testInvalid},
		{"a context that ended", testContext},
		{"buffers are free after put", testBuffersFree},
		{"clock", testNow},
	}, uploadCases...)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

type contractCase struct {
	name string
	test func(t *testing.T, b objstore.Bucket)
}

// Bytes gives n pseudo-random bytes, the same for the same seed.
func Bytes(seed uint64, n int) []byte {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	p := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(p) // never fails
	return p
}

// Get reads a range whole.
func Get(ctx context.Context, b objstore.Bucket, key string, offset, length int64) ([]byte, error) {
	r, err := b.Get(ctx, key, offset, length)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func mustPut(t *testing.T, b objstore.Bucket, key string, buffers ...[]byte) {
	t.Helper()
	require.NoError(t, b.Put(t.Context(), key, objstore.NewBody(buffers...)))
}

func mustGet(t *testing.T, b objstore.Bucket, key string, offset, length int64) []byte {
	t.Helper()
	data, err := Get(t.Context(), b, key, offset, length)
	require.NoError(t, err)
	return data
}

func testRanges(t *testing.T, b objstore.Bucket) {
	t.Helper()
	data := Bytes(1, 3<<20)
	mustPut(t, b, "a/b/object", data[:1], nil, data[1:100], data[100:1<<20], data[1<<20:])
	size := int64(len(data))
	ranges := []struct{ offset, length, want int64 }{
		{0, -1, size},
		{0, size, size},
		{0, 1, 1},
		{1 << 20, 1 << 20, 1 << 20},
		{size - 1, -1, 1},
		{size - 1, 1, 1},
		{size - 5, 100, 5},
		{0, size + 1, size},
		{7, -1, size - 7},
	}
	for _, r := range ranges {
		got := mustGet(t, b, "a/b/object", r.offset, r.length)
		require.True(t, bytes.Equal(data[r.offset:r.offset+r.want], got), "range %+v", r)
	}
	for _, last := range []int64{1, 1000, size, size + 1} {
		want := data[size-min(last, size):]
		require.True(t, bytes.Equal(want, mustGet(t, b, "a/b/object", -last, -1)), "last %d bytes", last)
	}
	for _, r := range [][2]int64{{size, 1}, {size, -1}, {size + 10, 5}, {3, 0}, {-5, 0}, {-5, 5}} {
		_, err := Get(t.Context(), b, "a/b/object", r[0], r[1])
		require.ErrorIs(t, err, objstore.ErrRange, "range %v", r)
	}
}

func testEmpty(t *testing.T, b objstore.Bucket) {
	t.Helper()
	mustPut(t, b, "empty")
	require.Empty(t, mustGet(t, b, "empty", 0, -1))
	info, err := b.Head(t.Context(), "empty")
	require.NoError(t, err)
	require.Zero(t, info.Size)
	for _, r := range [][2]int64{{0, 1}, {-1, -1}} {
		_, err = Get(t.Context(), b, "empty", r[0], r[1])
		require.ErrorIs(t, err, objstore.ErrRange)
	}
}

func testCreateOnly(t *testing.T, b objstore.Bucket) {
	t.Helper()
	mustPut(t, b, "dir/key", []byte("first"))
	err := b.Put(t.Context(), "dir/key", objstore.NewBody([]byte("second")))
	require.ErrorIs(t, err, objstore.ErrAlreadyExists)
	require.Equal(t, "first", string(mustGet(t, b, "dir/key", 0, -1)))
}

func testSameBytes(t *testing.T, b objstore.Bucket) {
	t.Helper()
	mustPut(t, b, "dir/key", []byte("first"))
	err := b.Put(t.Context(), "dir/key", objstore.NewBody([]byte("first")))
	require.ErrorIs(t, err, objstore.ErrAlreadyExists)
}

func testConcurrentPuts(t *testing.T, b objstore.Bucket) {
	t.Helper()
	const writers = 8
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			errs[i] = b.Put(t.Context(), "new/dir/raced", objstore.NewBody(Bytes(uint64(i), 100_000)))
		})
	}
	wg.Wait()
	winner := slices.Index(errs, nil)
	require.GreaterOrEqual(t, winner, 0, "nobody won: %v", errs)
	for i, err := range errs {
		if i != winner && !errors.Is(err, objstore.ErrAlreadyExists) && !errors.Is(err, objstore.ErrConflict) {
			t.Errorf("writer %d: %v, and %d won", i, err, winner)
		}
	}
	require.True(t, bytes.Equal(Bytes(uint64(winner), 100_000), mustGet(t, b, "new/dir/raced", 0, -1)))
}

func testChecksum(t *testing.T, b objstore.Bucket) {
	t.Helper()
	body := objstore.NewBody([]byte("some bytes"))
	body.CRC32C ^= 1
	require.ErrorIs(t, b.Put(t.Context(), "bad", body), objstore.ErrChecksum)
	_, err := b.Head(t.Context(), "bad")
	require.ErrorIs(t, err, objstore.ErrNotFound)
}

func testSize(t *testing.T, b objstore.Bucket) {
	t.Helper()
	for _, delta := range []int64{-1, 1} {
		body := objstore.NewBody([]byte("some bytes"))
		body.Size += delta
		require.Error(t, b.Put(t.Context(), "bad", body))
	}
	_, err := b.Head(t.Context(), "bad")
	require.ErrorIs(t, err, objstore.ErrNotFound)
}

func testMissing(t *testing.T, b objstore.Bucket) {
	t.Helper()
	mustPut(t, b, "there/x", []byte("x"))
	for _, key := range []string{"missing", "there/y", "there/z/y"} {
		_, err := Get(t.Context(), b, key, 0, -1)
		require.ErrorIs(t, err, objstore.ErrNotFound, key)
		_, err = Get(t.Context(), b, key, 5, 5)
		require.ErrorIs(t, err, objstore.ErrNotFound, key)
		_, err = b.Head(t.Context(), key)
		require.ErrorIs(t, err, objstore.ErrNotFound, key)
	}
}

func testHead(t *testing.T, b objstore.Bucket) {
	t.Helper()
	body := objstore.NewBody(Bytes(2, 10_000))
	require.NoError(t, b.Put(t.Context(), "x/y", body))
	info, err := b.Head(t.Context(), "x/y")
	require.NoError(t, err)
	require.Equal(t, "x/y", info.Key)
	require.Equal(t, body.Size, info.Size)
	require.WithinDuration(t, time.Now(), info.Modified, time.Minute)
	if info.HasCRC {
		require.Equal(t, body.CRC32C, info.CRC32C)
	}
}

// orderedKeys are in byte order, with neighbours of the slash (0x2f) that a walk by directories gets wrong.
var orderedKeys = []string{
	"A/1", "a!/x", "a-b", "a.b/c", "a/!", "a/-/x", "a/0/1", "a/0/2", "a/0-", "a/00/1", "a/b", "a0", "ab/c/d/e", "b",
}

func putOrdered(t *testing.T, b objstore.Bucket) []string {
	t.Helper()
	keys := slices.Sorted(slices.Values(orderedKeys))
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(len(keys)) {
		mustPut(t, b, keys[i], []byte(keys[i]))
	}
	return keys
}

func listAll(t *testing.T, b objstore.Bucket, prefix, startAfter string, limit int) []string {
	t.Helper()
	var keys []string
	for {
		page, err := b.List(t.Context(), prefix, startAfter, limit)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), limit)
		if len(page) == 0 {
			return keys
		}
		for _, info := range page {
			require.EqualValues(t, len(info.Key), info.Size, info.Key)
			keys = append(keys, info.Key)
		}
		startAfter = page[len(page)-1].Key
		require.Less(t, len(keys), 1000, "list does not end")
	}
}

func testListPages(t *testing.T, b objstore.Bucket) {
	t.Helper()
	page, err := b.List(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Empty(t, page)
	keys := putOrdered(t, b)
	for _, limit := range []int{1, 2, 3, 5, 1000} {
		require.Equal(t, keys, listAll(t, b, "", "", limit), "pages of %d", limit)
	}
}

func testListBounds(t *testing.T, b objstore.Bucket) {
	t.Helper()
	keys := putOrdered(t, b)
	prefixes := []string{"", "a", "a/", "a/0", "a/0/", "ab/c/", "b", "c", "a/zz", "zz/y/"}
	starts := append([]string{"", "0", "a", "a/", "a/0", "a/0/11", "a/zz", "a.", "ab/c", "zz"}, keys...)
	for _, prefix := range prefixes {
		for _, start := range starts {
			var want []string
			for _, key := range keys {
				if strings.HasPrefix(key, prefix) && key > start {
					want = append(want, key)
				}
			}
			page, err := b.List(t.Context(), prefix, start, 1000)
			require.NoError(t, err)
			var got []string
			for _, info := range page {
				got = append(got, info.Key)
			}
			require.Equal(t, want, got, "prefix %q, after %q", prefix, start)
		}
	}
}

func testDelete(t *testing.T, b objstore.Bucket) {
	t.Helper()
	keys := putOrdered(t, b)
	require.NoError(t, b.Delete(t.Context(), nil))
	require.NoError(t, b.Delete(t.Context(), []string{"no-such", "no/such"}))
	gone := append([]string{"no-such"}, keys[:5]...)
	require.NoError(t, b.Delete(t.Context(), gone))
	require.Equal(t, keys[5:], listAll(t, b, "", "", 1000))
	_, err := b.Head(t.Context(), keys[0])
	require.ErrorIs(t, err, objstore.ErrNotFound)
	mustPut(t, b, keys[0], []byte("again"))
	require.Equal(t, "again", string(mustGet(t, b, keys[0], 0, -1)))
	require.NoError(t, b.Delete(t.Context(), keys))
	require.Empty(t, listAll(t, b, "", "", 1000))
}

func testInvalid(t *testing.T, b objstore.Bucket) {
	t.Helper()
	for _, key := range []string{"", "/a", "a/", "a//b", ".", "../a", "a/../b", "a/./b", "a\x00b", strings.Repeat("k", 1025)} {
		require.ErrorIs(t, b.Put(t.Context(), key, objstore.NewBody()), objstore.ErrKey, "put %q", key)
		_, err := b.Get(t.Context(), key, 0, -1)
		require.ErrorIs(t, err, objstore.ErrKey, "get %q", key)
		_, err = b.Head(t.Context(), key)
		require.ErrorIs(t, err, objstore.ErrKey, "head %q", key)
		requireWhole(t, b.Delete(t.Context(), []string{key}), objstore.ErrKey)
	}
	require.Error(t, b.Delete(t.Context(), make([]string, objstore.MaxKeys+1)))
	for _, limit := range []int{-1, 0, objstore.MaxKeys + 1} {
		_, err := b.List(t.Context(), "", "", limit)
		require.Error(t, err)
	}
}

func testContext(t *testing.T, b objstore.Bucket) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Put(ctx, "k", objstore.NewBody([]byte("x"))), context.Canceled)
	_, err := b.Get(ctx, "k", 0, -1)
	require.ErrorIs(t, err, context.Canceled)
	_, err = b.Head(ctx, "k")
	require.ErrorIs(t, err, context.Canceled)
	_, err = b.List(ctx, "", "", 1)
	require.ErrorIs(t, err, context.Canceled)
	requireWhole(t, b.Delete(ctx, []string{"k"}), context.Canceled)
}

// testBuffersFree overwrites the buffers right after each put returned, some of the puts being cut short: the race
// detector sees late reads, and objects that exist must have the bytes of before.
func testBuffersFree(t *testing.T, b objstore.Bucket) {
	t.Helper()
	const size = 1 << 20
	poison := bytes.Repeat([]byte{0xdb}, size)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			data := Bytes(uint64(i), size)
			body := objstore.NewBody(data[:1000], data[1000:size/2], data[size/2:])
			ctx, cancel := context.WithCancel(t.Context())
			if i%2 == 1 {
				stop := time.AfterFunc(time.Duration(i)*time.Millisecond, cancel)
				defer stop.Stop()
			}
			err := b.Put(ctx, fmt.Sprintf("poison/%d", i), body)
			cancel()
			copy(data, poison)
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("put %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	for i := range 12 {
		data, err := Get(t.Context(), b, fmt.Sprintf("poison/%d", i), 0, -1)
		if errors.Is(err, objstore.ErrNotFound) && i%2 == 1 {
			continue
		}
		require.NoError(t, err)
		require.True(t, bytes.Equal(Bytes(uint64(i), size), data), "object %d is torn", i)
	}
}

func testNow(t *testing.T, b objstore.Bucket) {
	t.Helper()
	now, err := b.Now(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), now, time.Minute)
}
