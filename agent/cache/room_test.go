package cache

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// unread gives what units hold that were read ahead and not used, and what counts as such.
func (s *store) unread(class Class) (units, counted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.mu.units {
		if u.unread && u.class == class {
			units += u.size
		}
	}
	return units, s.mu.aheadBytes[class]
}

// GETs side by side do not take the same room: what many readers read ahead, each by a GET of its own, stays within half
// of what the class keeps, and what was counted for it is given back, whether it was read, given up or failed.
func TestCache_ReadAheadSideBySideStaysWithinItsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b := setup(t, Config{CatchUp: Bounds{Bytes: 48 << 20, Gets: 16}})
		b.body = func(get int32, r io.ReadCloser) io.ReadCloser {
			if get%4 == 0 {
				return &broken{ReadCloser: r, after: PartUnit / 2}
			}
			return &slow{ReadCloser: r}
		}
		var exts []extent.Extent
		for i := range 8 {
			exts = append(exts, cachetest.Compact(t, b, id.Bundle(i+1), 1<<30, long(0, 50, 100_000))[0][0])
		}
		for i := range exts {
			c.Ahead(uint64(i+1), []Next{{Extents: exts[i : i+1], Bytes: 5 << 20}})
		}
		most := int64(0)
		for range 60 {
			pass(time.Millisecond)
			synctest.Wait()
			units, _ := c.store.unread(CatchUp)
			most = max(most, units)
		}
		require.LessOrEqual(t, most, int64(16<<20), "half of what the class keeps")
		require.Positive(t, most)

		pass(2 * maxStill)
		synctest.Wait()
		require.Empty(t, c.mu.flights, "given up")
		units, counted := c.store.unread(CatchUp)
		require.Equal(t, units, counted)
		pass(maxAhead)
		ok, _ := c.store.reserve(CatchUp, 1, PartUnit) // which ages what is there
		require.True(t, ok)
		c.store.giveBack(CatchUp, 1, PartUnit)
		_, counted = c.store.unread(CatchUp)
		require.Zero(t, counted)
		require.Empty(t, c.store.mu.aheadOf[CatchUp])
	})
}

// What another agent sends takes no more room than it has: a bundle of a few bytes is not held back for the size that it
// might have had.
func TestZone_ReadAheadTakesTheRoomOfWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{fetch: give(make([]byte, 1000))}
		c, _ := setup(t, Config{Zone: z, CatchUp: Bounds{Bytes: 48 << 20, Gets: 16}})
		for i := range 8 {
			c.launch([]unitKey{{bundle: id.Bundle(i + 1)}}, account{class: CatchUp, reader: 1})
		}
		synctest.Wait()
		units, counted := c.store.unread(CatchUp)
		require.EqualValues(t, 8*1000, units)
		require.Equal(t, units, counted)
	})
}

// broken bodies end in an error.
type broken struct {
	io.ReadCloser
	after int
}

func (b *broken) Read(p []byte) (int, error) {
	if b.after <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.after)])
	b.after -= n
	return n, err
}
