package cache

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// BenchmarkCache_PartHit is a sequential reader's MiB out of a long extent that is in memory and was verified before.
func BenchmarkCache_PartHit(b *testing.B) {
	c, bk := setup(b, Config{CatchUp: Bounds{Bytes: 128 << 20}})
	e := cachetest.Compact(b, bk, 7, 1<<30, long(0, 160, 100_000))[0][0]
	p := Part{Extent: &e, Bytes: 1 << 20}
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		got, err := c.ReadPart(b.Context(), p, CatchUp)
		if err != nil {
			b.Fatal(err)
		}
		got.Batches(func(batch Batch) bool { p.Offset = batch.Last + 1; return true })
		p.Position = got.Position + uint32(got.Size())
		if !got.More {
			p.Offset, p.Position = 0, 0
		}
		got.Release()
	}
}

// BenchmarkCache_Ahead plans the read-ahead of a reader of a thousand partitions, all of whose units are in memory.
func BenchmarkCache_Ahead(b *testing.B) {
	c, bk := setup(b, Config{CatchUp: Bounds{Bytes: 128 << 20}})
	var nexts []Next
	for i := range 1000 {
		exts := []extent.Extent{{
			Kind: extent.Absolute, Bundle: 7, Position: uint32(24 + i*16_000), Length: 16_000, Base: 0, Last: 10,
		}}
		nexts = append(nexts, Next{Extents: exts, Bytes: 32 << 20})
	}
	cachetest.Compact(b, bk, 7, 1<<30, long(0, 160, 100_000))
	for key := uint32(0); key < 16<<20; key += PartUnit {
		u, err := c.join([]unitKey{{bundle: 7, first: key, part: true}}, account{class: CatchUp}, true)[0].wait(b.Context(), c)
		require.NoError(b, err)
		u.release()
	}
	b.ReportAllocs()
	for b.Loop() {
		if states := c.Ahead(1, nexts); states[0] != Resident {
			b.Fatal(states[0])
		}
	}
}

// BenchmarkCache_MergedGet reads eight units by one GET, from memory, so that what is left is the cache's own work.
func BenchmarkCache_MergedGet(b *testing.B) {
	c, bk := setup(b, Config{CatchUp: Bounds{Bytes: 128 << 20, Rate: 1 << 20}})
	const units = 8
	s := long(0, units*PartUnit/100_000, 100_000)
	for name := range id.Bundle(2) { // taken in turns, so that none is there twice
		cachetest.Compact(b, bk, name+1, 1<<30, s)
	}
	b.SetBytes(units * PartUnit)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		keys := make([]unitKey, units)
		for i := range keys {
			keys[i] = unitKey{bundle: id.Bundle(n%2 + 1), first: uint32(i * PartUnit), part: true}
		}
		for _, f := range c.join(keys, account{class: CatchUp, reader: 1}, true) {
			u, err := f.wait(b.Context(), c)
			if err != nil {
				b.Fatal(err)
			}
			c.store.drop(u)
			u.release()
		}
	}
}
