package snapshot_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/snapshot"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/fault"
	"github.com/freshet-io/freshet/objstore/mem"
)

const prefix = "snapshots/"

// state gives one that encodes to about the given size, incompressible.
func state(index uint64, size int) *metadata.State {
	s := metadata.New()
	rng := rand.NewChaCha8([32]byte{1})
	value := make([]byte, size)
	_, _ = rng.Read(value)
	s.Apply(index, &metadata.Batch{Now: 1, Commands: []metadata.Command{
		&metadata.Bootstrap{ClusterID: "cluster"},
		&metadata.CreateTopic{ID: id.Topic{1}, Name: "t", Partitions: 3},
		&metadata.UpdateGroup{Group: "g", Kind: metadata.GroupClassic, Head: value},
	}}, nil, nil)
	return s.Snapshot()
}

func write(t *testing.T, b objstore.Bucket, s *metadata.State) metalog.SnapshotRef {
	t.Helper()
	ref, hash, err := snapshot.Write(t.Context(), b, prefix, s)
	require.NoError(t, err)
	require.Equal(t, s.Hash(), hash)
	return ref
}

func keys(t *testing.T, b objstore.Bucket) []string {
	t.Helper()
	infos, err := b.List(t.Context(), "", "", 1000)
	require.NoError(t, err)
	var all []string
	for _, info := range infos {
		all = append(all, info.Key)
	}
	return all
}

func TestSnapshot_RoundTripInParts(t *testing.T) {
	b := mem.New()
	s := state(42, snapshot.PartBytes+1000)
	ref := write(t, b, s)
	require.EqualValues(t, 42, ref.Index)
	require.Regexp(t, `^snapshots/000000000000002a-[0-9a-f]{8}$`, ref.Name)
	require.Equal(t, []string{
		ref.Name + "/manifest", ref.Name + "/part-00000", ref.Name + "/part-00001",
	}, keys(t, b))
	got, hash, err := snapshot.Read(t.Context(), b, ref)
	require.NoError(t, err)
	require.Equal(t, s.Hash(), hash)
	require.EqualValues(t, 42, got.Index())
	got.Apply(43, &metadata.Batch{}, nil, nil) // it goes on
}

// Whatever object of a snapshot is missing, cut or changed is seen, as corruption and not as an outage.
func TestRead_SeesDamage(t *testing.T) {
	for _, object := range []string{"manifest", "part-00000"} {
		for name, damage := range map[string]func([]byte) []byte{
			"missing":      func([]byte) []byte { return nil },
			"cut":          func(p []byte) []byte { return p[:len(p)-1] },
			"longer":       func(p []byte) []byte { return append(p, 0) },
			"one bit":      func(p []byte) []byte { p[len(p)/2] ^= 1; return p },
			"another text": func([]byte) []byte { return []byte("{}") },
		} {
			t.Run(object+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := mem.New()
					ref := write(t, b, state(7, 100))
					key := ref.Name + "/" + object
					r, err := b.Get(t.Context(), key, 0, -1)
					require.NoError(t, err)
					p, err := io.ReadAll(r)
					require.NoError(t, err)
					require.NoError(t, b.Delete(t.Context(), []string{key}))
					if p = damage(bytes.Clone(p)); p != nil {
						require.NoError(t, b.Put(t.Context(), key, objstore.NewBody(p)))
					}
					_, _, err = snapshot.Read(t.Context(), b, ref)
					require.ErrorIs(t, err, snapshot.ErrCorrupt)
				})
			})
		}
	}
}

// flaky fails requests, or damages what is read, as long as it is told to.
type flaky struct {
	*mem.Bucket
	puts, gets int // to fail
	torn       bool
}

func (b *flaky) Put(ctx context.Context, key string, body objstore.Body) error {
	if b.puts > 0 {
		b.puts--
		if b.puts%2 == 0 { // took effect, answer lost
			_ = b.Bucket.Put(ctx, key, body)
		}
		return objstore.ErrOutcomeUnknown
	}
	if b.torn && strings.Contains(key, "/part-") {
		body = objstore.NewBody([]byte("torn"))
	}
	return b.Bucket.Put(ctx, key, body)
}

func (b *flaky) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if b.gets > 0 {
		b.gets--
		return nil, fmt.Errorf("get: %w", objstore.ErrThrottled)
	}
	return b.Bucket.Get(ctx, key, offset, length)
}

func TestSnapshot_RidesOutFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &flaky{Bucket: mem.New(), puts: 3, gets: 3}
		ref := write(t, b, state(7, 100))
		b.gets = 4
		_, _, err := snapshot.Read(t.Context(), b, ref)
		require.NoError(t, err)
		b.gets = 100
		_, _, err = snapshot.Read(t.Context(), b, ref)
		require.ErrorIs(t, err, snapshot.ErrUnavailable)
		require.NotErrorIs(t, err, snapshot.ErrCorrupt)
	})
}

func TestWrite_ReadsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, err := snapshot.Write(t.Context(), &flaky{Bucket: mem.New(), torn: true}, prefix, state(7, 100))
		require.ErrorIs(t, err, snapshot.ErrCorrupt)
	})
}

func TestWrite_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err := snapshot.Write(ctx, mem.New(), prefix, state(7, 100))
		require.Error(t, err)
	})
}

func TestDeleteOlder_KeepsTheRest(t *testing.T) {
	b := mem.New()
	var refs []metalog.SnapshotRef
	for _, index := range []uint64{5, 10, 15, 15, 20} {
		refs = append(refs, write(t, b, state(index, 10)))
	}
	other := "snapshots/1/0000000000000001-00000000/part-00000"
	require.NoError(t, b.Put(t.Context(), other, objstore.NewBody([]byte("x"))))
	n, err := snapshot.DeleteOlder(t.Context(), b, prefix, 15)
	require.NoError(t, err)
	require.Equal(t, 4, n)
	for i, ref := range refs {
		_, _, err := snapshot.Read(t.Context(), b, ref)
		require.Equal(t, i < 2, err != nil)
	}
	require.Contains(t, keys(t, b), other)
}

// An object that cannot be deleted keeps no other snapshot, nor those of later pages.
func TestDeleteOlder_GoesOnPastARefusedObject(t *testing.T) {
	b := fault.New(mem.New(), 1)
	const old = 1200 // more than a page
	for i := range old {
		key := fmt.Sprintf("%s%016x-00000000/manifest", prefix, i+1)
		require.NoError(t, b.Put(t.Context(), key, objstore.NewBody([]byte("x"))))
	}
	kept := write(t, b, state(old+1, 10))
	b.MustAdd(fmt.Sprintf("delete key=%s%016x-00000000/manifest refuse", prefix, 2))
	n, err := snapshot.DeleteOlder(t.Context(), b, prefix, kept.Index)
	require.ErrorIs(t, err, snapshot.ErrUnavailable)
	require.ErrorContains(t, err, "1 objects refused")
	require.Equal(t, old-1, n)
	_, _, err = snapshot.Read(t.Context(), b, kept)
	require.NoError(t, err)
	b.Clear()
	n, err = snapshot.DeleteOlder(t.Context(), b, prefix, kept.Index)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// listed counts the LISTs.
type listed struct {
	*mem.Bucket
	lists int
}

func (b *listed) List(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.Info, error) {
	b.lists++
	return b.Bucket.List(ctx, prefix, startAfter, limit)
}

func TestNewer_FindsWhatIsAboveAnIndex(t *testing.T) {
	b := &listed{Bucket: mem.New()}
	var want []snapshot.Found
	for _, index := range []uint64{9, 15, 16, 0x100} {
		ref := write(t, b, state(index, 10))
		want = append(want, snapshot.Found{Index: index, Name: ref.Name})
	}
	torn := snapshot.Found{Index: 17, Name: "snapshots/0000000000000011-00000000"}
	for _, key := range []string{
		torn.Name + "/part-00000", torn.Name + "/part-00001",
		"snapshots/1/0000000000000001-00000000/part-00000", "snapshots/zzz", "snapshots.old/0000000000000200-00000000/manifest",
	} {
		require.NoError(t, b.Put(t.Context(), key, objstore.NewBody([]byte("x"))))
	}
	for index, above := range map[uint64][]snapshot.Found{
		0: {want[0], want[1], want[2], torn, want[3]}, 15: {want[2], torn, want[3]}, 16: {torn, want[3]}, 0xff: {want[3]}, 0x100: nil,
	} {
		found, err := snapshot.Newer(t.Context(), b, prefix, index)
		require.NoError(t, err)
		require.Equal(t, above, found, "above %d", index)
	}

	require.NoError(t, b.Delete(t.Context(), []string{"snapshots/1/0000000000000001-00000000/part-00000", "snapshots/zzz"}))
	b.lists = 0
	_, err := snapshot.Newer(t.Context(), b, prefix, 0x100)
	require.NoError(t, err)
	require.Equal(t, 1, b.lists)
}
