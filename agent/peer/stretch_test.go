package peer

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/metadata/id"
)

// stored reads a bundle's object.
func (c *cluster) stored(b id.Bundle, from, length int64) []byte {
	c.t.Helper()
	body, err := c.bucket.Bucket.Get(c.t.Context(), cachetest.Key(b), from, length)
	require.NoError(c.t, err)
	defer body.Close()
	p, err := io.ReadAll(body)
	require.NoError(c.t, err)
	return p
}

func TestZone_ReadAt(t *testing.T) {
	c := newCluster(t, 3)
	asker, owner := c.agents[0], c.agents[1]
	name := c.owned(owner, asker, written(99, 1)) // its writer is gone
	made, extents := c.bundle(name, 8, 20_000)
	p := make([]byte, 50_000)
	require.False(t, asker.asks.ReadAt(t.Context(), name, p, 24), "nobody has it")
	require.Zero(t, c.bucket.gets.Load(), "and nobody reads it")

	c.read(owner, made, &extents[0])
	require.EqualValues(t, 1, c.bucket.gets.Load())
	for _, position := range []uint32{24, 25, 40_000} {
		require.True(t, asker.asks.ReadAt(t.Context(), name, p, position))
		want := c.stored(name, int64(position), int64(len(p)))
		first := made.Batches[0]
		if position < first.Position+16 { // its base offset and leader epoch may be patched
			cut := first.Position + 16 - position
			require.True(t, bytes.Equal(want[cut:], p[cut:]))
			continue
		}
		require.True(t, bytes.Equal(want, p))
	}
	require.False(t, asker.asks.ReadAt(t.Context(), name, make([]byte, 1_000_000), 24), "past the end")
	require.False(t, asker.asks.ReadAt(t.Context(), name, p, cache.WholeUnit-1), "not in the unit")
	require.EqualValues(t, 1, c.bucket.gets.Load())
	require.Equal(t, 3, asker.metric(t, "freshet_peer_requests_total", askedOK))
}

// A writer is asked for what it has; what it left out of its memory is no reason to leave it out.
func TestZone_ReadAtOfTheWriter(t *testing.T) {
	c := newCluster(t, 2)
	asker, writer := c.agents[0], c.agents[1]
	name := written(writer.session, 1)
	made, extents := c.bundle(name, 4, 10_000)
	o := &own{}
	for _, i := range []int{0, 1, 3} {
		o.add(made.Batches[i], extents[i].Base)
	}
	writer.cache.Put(name, o)

	second, third := made.Batches[1], made.Batches[2]
	p := make([]byte, len(second.Raw)-100)
	require.True(t, asker.asks.ReadAt(t.Context(), name, p, second.Position+50))
	require.True(t, bytes.Equal(second.Raw[50:len(second.Raw)-50], p))
	require.False(t, asker.asks.ReadAt(t.Context(), name, p, third.Position-10), "a batch that was not accepted")
	require.Zero(t, asker.asks.leftOut())
	require.Zero(t, c.bucket.gets.Load())
}
