package agent

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/agent/job/merge"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/meter"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

// roundTrip is what asking another agent takes in these tests.
const roundTrip = time.Millisecond

// zoneMemory has a bundle's bytes up to an end, a round trip away.
type zoneMemory struct {
	data  []byte
	end   uint32
	asked atomic.Int64
}

func (m *zoneMemory) ReadAt(ctx context.Context, _ id.Bundle, p []byte, position uint32) bool {
	m.asked.Add(1)
	select {
	case <-time.After(roundTrip):
	case <-ctx.Done():
		return false
	}
	if position+uint32(len(p)) > m.end {
		return false
	}
	copy(p, m.data[position:])
	return true
}

// inZone has a bundle in the store, and in the zone's memory up to an end.
func inZone(t *testing.T, data []byte, end, window int) (b zoneBucket, counted *meter.Bucket, m *zoneMemory, key string) {
	t.Helper()
	counted, m = meter.New(mem.New(), nil), &zoneMemory{data: data, end: uint32(end)}
	key = bundle.Key("vc/", id.Submission{Session: 1, N: 1}.Bundle())
	require.NoError(t, counted.Put(t.Context(), key, objstore.NewBody(data)))
	return zoneBucket{Bucket: counted, zone: m, prefix: "vc/", window: window}, counted, m, key
}

// What the zone has is read from there, all else by one GET, wherever the zone's memory ends.
func TestZoneReader_ReadsAll(t *testing.T) {
	data := objstoretest.Bytes(1, 1000)
	for end := 0; end <= 1000; end += 50 {
		synctest.Test(t, func(t *testing.T) {
			b, counted, _, key := inZone(t, data, end, 100)
			r, err := b.Get(t.Context(), key, 30, 950)
			require.NoError(t, err)
			got, err := io.ReadAll(r)
			require.NoError(t, err)
			require.True(t, bytes.Equal(data[30:980], got), "memory to %d", end)
			require.NoError(t, r.Close())
			gets := int64(1)
			if end >= 980 {
				gets = 0
			}
			require.Equal(t, gets, counted.Counts()[objstore.OpGet].Requests, "memory to %d", end)
		})
	}
}

// Reading takes a round trip for the first window alone, where what is read between takes as long as that.
func TestZoneReader_AsksAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, m, key := inZone(t, make([]byte, 1000), 1000, 100)
		r, err := b.Get(t.Context(), key, 0, 1000)
		require.NoError(t, err)
		began := time.Now()
		window := make([]byte, 100)
		for range 10 {
			_, err := io.ReadFull(r, window)
			require.NoError(t, err)
			time.Sleep(roundTrip) // sleeps: the merge of other inputs, in a synctest bubble
		}
		require.Equal(t, 11*roundTrip, time.Since(began))
		require.EqualValues(t, 10, m.asked.Load(), "nothing is asked for twice, or behind the end")
		require.NoError(t, r.Close())
	})
}

// Close does not wait for an agent that does not answer, and nobody writes into memory after it.
func TestZoneReader_CloseEndsTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, _, key := inZone(t, make([]byte, 1000), 1000, 100)
		r, err := b.Get(t.Context(), key, 0, 1000)
		require.NoError(t, err)
		_, err = io.ReadFull(r, make([]byte, 50))
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, r.Close())
		require.Zero(t, time.Since(began))
		synctest.Wait()
	})
}

// nothingWarm is an agent that has nothing in memory.
type nothingWarm struct{}

func (nothingWarm) Warm(*extent.Extent) ([][]byte, func(), bool) { return nil, nil, false }

// TestZoneBucket_SecondLook merges a bundle of which another agent's memory has a bit wrong: the object store is intact, and
// is what counts. Where its object is damaged too, the bundle is corrupt.
func TestZoneBucket_SecondLook(t *testing.T) {
	for _, damagedStore := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			name := id.Submission{Session: 1, N: 1}.Bundle()
			made := cachetest.NewBundle(name)
			x := made.Extent(100, made.Add(cachetest.Batch(make([]byte, 5000), 1)))
			damaged := bytes.Clone(made.Bytes())
			damaged[x.Position+4000] ^= 1
			stored := made.Bytes()
			if damagedStore {
				stored = damaged
			}
			b, counted, m, key := inZone(t, stored, len(stored), 64<<10)
			require.Equal(t, bundle.Key("vc/", name), key)
			m.data = damaged
			plan := &job.Plan{ID: 9, Kind: job.Compact, Level: 1, Partitions: []job.Partition{{
				ID: id.TopicPartition{Topic: id.Topic{1}}, Extents: []extent.Extent{x},
			}}}
			o, err := merge.Run(t.Context(), plan, func(int64) {}, merge.Env{Bucket: b, Prefix: "vc/", Warm: nothingWarm{}})
			require.EqualValues(t, 1, counted.Counts()[objstore.OpGet].Requests, "one GET past the memory")
			if damagedStore {
				var corrupt *merge.CorruptError
				require.ErrorAs(t, err, &corrupt)
				require.Equal(t, name, corrupt.Bundle)
				return
			}
			require.NoError(t, err)
			require.Len(t, o.Partitions, 1)
		})
	}
}
