package slab_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/agent/slab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const size = slab.MinSlabBytes

func newPool(t *testing.T, slabs int) *slab.Pool {
	t.Helper()
	p, err := slab.NewPool(slab.Config{Budget: int64(slabs * size), SlabBytes: size, Poison: true}, nil)
	require.NoError(t, err)
	return p
}

func get(t *testing.T, p *slab.Pool, n int) *slab.Slab {
	t.Helper()
	s, err := p.Get(t.Context())
	if n > size {
		s.Release()
		s, err = p.GetExact(t.Context(), n)
	}
	require.NoError(t, err)
	return s
}

func TestConfig_Validate(t *testing.T) {
	_, err := slab.NewPool(slab.Config{SlabBytes: 1, Budget: 0}, nil)
	require.ErrorContains(t, err, "slab size")
	require.ErrorContains(t, err, "budget")
}

func TestPool_AccountsForCapacity(t *testing.T) {
	p := newPool(t, 8)
	s := get(t, p, 1)
	s.Append([]byte("x"))
	require.EqualValues(t, size, p.Held(), "one byte holds a whole slab")
	large := get(t, p, size+1)
	require.Equal(t, 2*size, large.Cap(), "made to measure, rounded up")
	require.EqualValues(t, 3*size, p.Held())
	p.Charge(100)
	require.EqualValues(t, 3*size+100, p.Held())
	p.Charge(-100)
	small := p.ForceExact(10)
	require.Equal(t, 10, small.Cap())
	small.Release()
	large.Release()
	s.Release()
	require.Zero(t, p.Held())
}

func TestPool_WaitersGetTheirTurnInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 1)
		held := get(t, p, 1)
		var mu sync.Mutex
		var order []int
		for i := range 4 {
			go func() {
				s, err := p.Get(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				s.Release()
			}()
			synctest.Wait()
		}
		require.Empty(t, order, "nobody passes the bound")
		held.Release()
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, 3}, order)
		require.Zero(t, p.Held())
	})
}

func TestPool_GivingUpLetsTheNextOneIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 2)
		held := get(t, p, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := p.GetExact(ctx, 2*size) // does not fit beside the one held
			require.ErrorIs(t, err, context.Canceled)
		}()
		synctest.Wait()
		var second *slab.Slab
		go func() { second, _ = p.Get(t.Context()) }()
		synctest.Wait()
		require.Nil(t, second, "a small request does not overtake a large one")
		cancel()
		synctest.Wait()
		require.NotNil(t, second)
		second.Release()
		held.Release()
		require.Zero(t, p.Held())
	})
}

func TestPool_SomethingLargerThanTheBudgetGoesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 2)
		held := get(t, p, 1)
		var large *slab.Slab
		go func() { large, _ = p.GetExact(t.Context(), 5*size) }()
		synctest.Wait()
		require.Nil(t, large)
		held.Release()
		synctest.Wait()
		require.NotNil(t, large)
		large.Release()
	})
}

func TestSlab_TransferMovesMemoryOutOfTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 1)
		s := get(t, p, 1)
		kept := s.Append([]byte("kept"))
		var next *slab.Slab
		go func() { next, _ = p.Get(t.Context()) }()
		synctest.Wait()
		require.Nil(t, next)
		s.Transfer()
		s.Transfer()
		synctest.Wait()
		require.NotNil(t, next, "the budget is free again")
		require.Equal(t, "kept", string(kept), "the memory is still the owner's")
		s.Release()
		require.EqualValues(t, size, p.Held())
		next.Release()
		require.Zero(t, p.Held())
	})
}

func TestSlab_ReleasedMemoryIsPoisonedAndReused(t *testing.T) {
	p := newPool(t, 1)
	s := get(t, p, 1)
	b := s.Append([]byte("gone"))
	require.Equal(t, size, cap(b), "the capacity shows what lies in one allocation")
	s.Release()
	require.Equal(t, bytes.Repeat([]byte{0xDB}, 4), b)
	require.Panics(t, s.Release)
	again := get(t, p, 1)
	require.Equal(t, size, again.Room())
	require.Panics(t, func() { again.Append(make([]byte, size+1)) })
	again.Release()
	require.Zero(t, testing.AllocsPerRun(10, func() {
		s, _ := p.Get(context.Background())
		s.Release()
	}))
}

func TestMetrics_Golden(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	_, err := slab.NewPool(slab.Config{Budget: 3 << 20}, reg)
	require.NoError(t, err)
	require.NoError(t, testutil.GatherAndCompare(reg, bytes.NewBufferString(`
# HELP freshet_write_buffer_held_bytes Capacity held for batches that are not committed yet.
# TYPE freshet_write_buffer_held_bytes gauge
freshet_write_buffer_held_bytes 0
# HELP freshet_write_buffer_limit_bytes Bound on the capacity held for batches that are not committed yet.
# TYPE freshet_write_buffer_limit_bytes gauge
freshet_write_buffer_limit_bytes 3.145728e+06
# HELP freshet_write_buffer_waits_total Times that intake waited because the write buffers were used up.
# TYPE freshet_write_buffer_waits_total counter
freshet_write_buffer_waits_total 0
`)))
}
