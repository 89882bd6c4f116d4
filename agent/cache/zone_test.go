package cache

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/metadata/extent"
)

// zone is another agent, as the cache sees it.
type zone struct {
	asks   atomic.Int32
	unfits [2]atomic.Int32
	fetch  func(ctx context.Context, a Ask, take func(int, Incoming) error, leave func([]int))
}

func (z *zone) Fetch(ctx context.Context, a Ask, take func(int, Incoming) error, leave func([]int)) {
	z.asks.Add(1)
	z.fetch(ctx, a, take, leave)
}

func (z *zone) Unfit(why Unfit) { z.unfits[why].Add(1) }

// sent is one unit on its way: one stretch.
type sent struct {
	position uint32
	bytes    []byte
	partial  bool
	begun    bool
	io.Reader
}

func (s *sent) Size() int64   { return int64(len(s.bytes)) }
func (s *sent) Partial() bool { return s.partial }
func (s *sent) Next() (position, length uint32, err error) {
	if s.begun {
		return 0, 0, io.EOF
	}
	s.begun, s.Reader = true, bytes.NewReader(s.bytes)
	return s.position, uint32(len(s.bytes)), nil
}

// give sends all units from the object's bytes, until one is not taken.
func give(object []byte) func(context.Context, Ask, func(int, Incoming) error, func([]int)) {
	return func(_ context.Context, a Ask, take func(int, Incoming) error, leave func([]int)) {
		for i, u := range a.Units {
			span := WholeUnit
			if u.Part {
				span = PartUnit
			}
			end := min(int(u.First)+span, len(object))
			if take(i, &sent{position: u.First, bytes: object[u.First:end]}) == nil {
				continue
			}
			var rest []int
			for k := i; k < len(a.Units); k++ {
				rest = append(rest, k)
			}
			leave(rest)
			return
		}
	}
}

func leaveAll(_ context.Context, a Ask, _ func(int, Incoming) error, leave func([]int)) {
	var all []int
	for i := range a.Units {
		all = append(all, i)
	}
	leave(all)
}

func TestZone_UnitsOfOtherAgents(t *testing.T) {
	z := &zone{}
	c, b := setup(t, Config{Zone: z})
	bundle := cachetest.NewBundle(1)
	first, second := bundle.Add(cachetest.Batch(value(300_000), 1)), bundle.Add(cachetest.Batch(value(10), 2))
	bundle.Store(t, b)
	z.fetch = give(bundle.Bytes())
	for base, p := range map[int64]cachetest.Placed{7: first, 9: second} {
		e := bundle.Extent(base, p)
		got, err := c.Read(t.Context(), &e, Live)
		require.NoError(t, err)
		require.Equal(t, cachetest.Patched(p.Raw, base), all(got))
		got.Release()
	}
	require.Equal(t, int32(1), z.asks.Load())
	require.Zero(t, b.gets.Load())
}

// What is lent is never asked of a third agent, and shares the GET of who reads it here.
func TestZone_LendSharesTheGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{fetch: func(ctx context.Context, a Ask, take func(int, Incoming) error, leave func([]int)) {
			pass(time.Second) // some agent was asked, and did not know
			leaveAll(ctx, a, take, leave)
		}}
		c, b := setup(t, Config{Zone: z})
		b.before = func(context.Context, int32) error { pass(time.Minute); return nil }
		c.cfg.GetTimeout = time.Hour
		bundle := cachetest.NewBundle(1)
		p := bundle.Add(cachetest.Batch(value(1000), 1))
		bundle.Store(t, b)
		e := bundle.Extent(7, p)
		read := make(chan error, 1)
		go func() {
			got, err := c.Read(t.Context(), &e, Live)
			if err == nil {
				got.Release()
			}
			read <- err
		}()
		synctest.Wait()
		o := &Order{Ask: Ask{Bundle: 1, Units: []Unit{{}}}}
		_, err := c.Lend(t.Context(), o, 0)
		require.ErrorIs(t, err, ErrAbsent)
		o.Read = true
		loan, err := c.Lend(t.Context(), o, 0)
		require.NoError(t, err)
		require.NoError(t, <-read)
		require.Equal(t, int32(1), b.gets.Load())
		require.Equal(t, int32(1), z.asks.Load())
		var out bytes.Buffer
		for _, s := range loan.Stretches() {
			_, err := s.WriteTo(&out)
			require.NoError(t, err)
		}
		loan.Release()
		require.Len(t, out.Bytes(), len(bundle.Bytes()))
	})
}

// Units that other agents send ahead of their readers are taken as readers use up those before, and given up if they do
// not; no GET is made for them either.
func TestZone_ReadAheadWaitsForReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{}
		c, b := setup(t, Config{Zone: z, CatchUp: Bounds{Bytes: 40 << 20, Gets: 16}})
		object := make([]byte, 8*PartUnit)
		z.fetch = give(object)
		var keys []unitKey
		for i := range uint32(8) {
			keys = append(keys, unitKey{bundle: 1, first: i * PartUnit, part: true})
		}
		count := func() int {
			n := 0
			for _, key := range keys {
				if c.store.has(key) {
					n++
				}
			}
			return n
		}
		c.launch(keys, account{class: CatchUp, reader: 1})
		synctest.Wait()
		came := count()
		require.Positive(t, came)
		require.Less(t, came, 8)
		c.store.get(keys[0]).release() // a reader uses it
		synctest.Wait()
		require.Equal(t, came+1, count())

		// A reader who waits gets its unit although there is no room ahead.
		f := c.join(keys[came+1:came+2], account{class: CatchUp, reader: 1}, false)[0]
		u, err := f.wait(t.Context(), c)
		require.NoError(t, err)
		u.release()

		pass(time.Minute)
		require.Zero(t, b.gets.Load())
		c.mu.Lock()
		defer c.mu.Unlock()
		require.Empty(t, c.mu.flights)
	})
}

// A unit that was given up while one agent had it to send is not taken from the next one that is asked, though there is
// room by then.
func TestZone_GivenUpIsNotTakenFromTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{}
		c, b := setup(t, Config{Zone: z, CatchUp: Bounds{Bytes: 40 << 20, Gets: 16}})
		object := make([]byte, 8*PartUnit)
		var keys []unitKey
		for i := range uint32(8) {
			keys = append(keys, unitKey{bundle: 1, first: i * PartUnit, part: true})
		}
		var again []error
		z.fetch = func(ctx context.Context, a Ask, take func(int, Incoming) error, leave func([]int)) {
			give(object)(ctx, a, take, func(rest []int) {
				for _, key := range keys {
					if u := c.store.get(key); u != nil { // readers come after all
						u.release()
					}
				}
				for _, i := range rest[:2] {
					first := a.Units[i].First
					again = append(again, take(i, &sent{position: first, bytes: object[first : first+PartUnit]}))
				}
				leave(rest)
			})
		}
		c.launch(keys, account{class: CatchUp, reader: 1})
		pass(time.Minute)
		synctest.Wait()
		require.Len(t, again, 2)
		require.ErrorIs(t, again[0], ErrUnwanted)
		require.NoError(t, again[1], "nobody gave this one up")
		require.Positive(t, b.gets.Load(), "the rest is left to the object store")
		c.mu.Lock()
		defer c.mu.Unlock()
		require.Empty(t, c.mu.flights)
	})
}

func TestZone_UnfitUnits(t *testing.T) {
	bundle := cachetest.NewBundle(1)
	p := bundle.Add(cachetest.Batch(value(1000), 1))
	damaged := bytes.Clone(bundle.Bytes())
	damaged[len(damaged)-1] ^= 1
	for name, tt := range map[string]struct {
		object []byte
		why    Unfit
	}{
		"lacks the extent": {bundle.Bytes()[:100], UnfitIncomplete},
		"is damaged":       {damaged, UnfitCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			z := &zone{fetch: give(tt.object)}
			c, b := setup(t, Config{Zone: z})
			bundle.Store(t, b)
			e := bundle.Extent(7, p)
			got, err := c.Read(t.Context(), &e, Live)
			require.NoError(t, err)
			require.Equal(t, cachetest.Patched(p.Raw, 7), all(got))
			got.Release()
			require.Equal(t, int32(1), z.asks.Load())
			require.Equal(t, int32(1), b.gets.Load())
			require.Equal(t, int32(1), z.unfits[tt.why].Load())
		})
	}
}

// relapsing is a zone of which another reader takes the same unit again, when it was found to be of no use.
type relapsing struct {
	*zone
	again func()
}

func (r *relapsing) Unfit(why Unfit) {
	r.zone.Unfit(why)
	r.again()
}

// Who goes to the object store takes nothing that came from another agent meanwhile.
func TestZone_UnfitAgain(t *testing.T) {
	bundle := cachetest.NewBundle(1)
	p := bundle.Add(cachetest.Patched(cachetest.Batch(value(1000), 1), 7))
	damaged := bytes.Clone(bundle.Bytes())
	damaged[len(damaged)-1] ^= 1
	for _, kind := range []extent.Kind{extent.Absolute, extent.Relative} {
		z := &relapsing{zone: &zone{fetch: give(damaged)}}
		c, b := setup(t, Config{Zone: z})
		bundle.Store(t, b)
		e := bundle.Extent(7, p)
		e.Kind = kind
		z.again = func() {
			u := &unit{key: unitKeys(&e)[0], segments: []segment{{bytes: bytes.Clone(damaged)}}, foreign: true}
			u.size = int64(len(damaged))
			u.retain()
			c.store.put(u, CatchUp, false)
		}
		got, err := c.ReadPart(t.Context(), Part{Extent: &e, Offset: 7, Bytes: 1 << 20}, CatchUp)
		require.NoError(t, err)
		require.Equal(t, p.Raw, all(got))
		got.Release()
		require.Equal(t, int32(1), b.gets.Load())
	}
}

func TestZone_RefusesWhatIsNoUnit(t *testing.T) {
	for name, in := range map[string]*sent{
		"empty":             {},
		"larger than units": {bytes: make([]byte, WholeUnit+1)},
		"beyond the unit":   {position: WholeUnit - 5, bytes: make([]byte, 10)},
	} {
		t.Run(name, func(t *testing.T) {
			var failed error
			z := &zone{fetch: func(ctx context.Context, a Ask, take func(int, Incoming) error, leave func([]int)) {
				failed = take(0, in)
				leaveAll(ctx, a, take, leave)
			}}
			c, b := setup(t, Config{Zone: z})
			bundle := cachetest.NewBundle(1)
			p := bundle.Add(cachetest.Batch(value(10), 1))
			bundle.Store(t, b)
			e := bundle.Extent(7, p)
			got, err := c.Read(t.Context(), &e, Live)
			require.NoError(t, err)
			got.Release()
			require.True(t, errors.Is(failed, ErrStretches))
		})
	}
}
