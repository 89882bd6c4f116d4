package zonewriter

import (
	"bufio"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// maxArena bounds the capacity that an arena holds for a window of batches. A chunk is at least three quarters full
// when the next one is opened, except the newest, and the oldest, whose first batches may have been released.
const maxArena = window*chunkBytes/(chunkBytes-ownBytes) + 2*chunkBytes

// held returns the capacity in use.
func (a *arena) held() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.held
}

// TestTaker_HoldsMemoryInProportionToTheWindow fills the window of a writer that takes nothing in. The capacity held stays
// within maxArena for batches of any size, and all of it is released once the writer takes the batches.
func TestTaker_HoldsMemoryInProportionToTheWindow(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, size := range map[string]func() int{
		"smallest":          func() int { return 1 },
		"small":             func() int { return 1000 },
		"largest in chunks": func() int { return ownBytes - 100 },
		"least of its own":  func() int { return ownBytes },
		"large":             func() int { return 60 << 10 },
		"whole window":      func() int { return window - 1000 },
		"all sizes":         func() int { return 1 + random.IntN(2*ownBytes) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				blocked := &own{closed: make(chan struct{})}
				taker := NewTaker(TakerConfig{Own: blocked, Silence: time.Hour})
				mine, its := net.Pipe()
				var serving sync.WaitGroup
				serving.Go(func() { taker.Serve(its, bufio.NewReader(its), me) })
				go func() { _, _ = bufio.NewReader(mine).WriteTo(discard{}) }()
				left := window
				for number := uint64(1); ; number++ {
					b := batch(0, -1, 0, size())
					if left -= len(b.Bytes) + frameOverhead; left < 0 {
						break
					}
					_, err := mine.Write(append(head{kindBatches, 1, number}.append(nil), encoded(b)...))
					require.NoError(t, err)
				}
				synctest.Wait()
				var stream *intake
				for stream = range taker.mu.streams {
				}
				require.LessOrEqual(t, stream.arena.held(), maxArena)
				require.Positive(t, stream.arena.held())
				close(blocked.closed)
				synctest.Wait()
				require.Zero(t, stream.arena.held())
				_ = mine.Close()
				serving.Wait()
			})
		})
	}
}

// TestArena_SharesChunks: frames in flight share chunks, and a chunk goes back to the pool with its last frame.
func TestArena_SharesChunks(t *testing.T) {
	var a arena
	_, first := a.small(ownBytes, nil)
	_, first = a.small(1, first)
	require.Len(t, first, 1, "one chunk")
	p, second := a.small(ownBytes, nil)
	require.Len(t, p, ownBytes)
	require.Equal(t, ownBytes, cap(p), "an append does not reach the next batch")
	require.Equal(t, chunkBytes, a.held())
	_, third := a.small(ownBytes, nil)
	_, third = a.small(ownBytes, third)
	require.Len(t, third, 2, "the first chunk has no room for the last batch")
	require.Equal(t, 2*chunkBytes, a.held())
	a.release(first)
	a.release(second)
	require.Equal(t, 2*chunkBytes, a.held())
	a.release(third)
	require.Zero(t, a.held())
	require.Nil(t, a.mu.open)
}

// TestTaker_ReleasesAFrameThatEndsEarly: a frame whose sender dies in the middle of it holds nothing.
func TestTaker_ReleasesAFrameThatEndsEarly(t *testing.T) {
	for name, size := range map[string]int{"small": 1000, "own memory": 2 * ownBytes} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				taker := NewTaker(TakerConfig{Own: &own{}})
				mine, its := net.Pipe()
				s := newIntake(taker, its, bufio.NewReader(its))
				var reading sync.WaitGroup
				reading.Go(s.read)
				raw := append(head{kindBatches, 1, 1}.append(nil), encoded(batch(0, -1, 0, size))...)
				_, err := mine.Write(raw[:len(raw)-1])
				require.NoError(t, err)
				synctest.Wait()
				require.Positive(t, s.arena.held())
				_ = mine.Close()
				reading.Wait()
				require.Zero(t, s.arena.held())
				require.True(t, s.window.TryAcquire(window))
			})
		})
	}
}
