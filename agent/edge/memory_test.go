package edge

import (
	"context"
	"encoding/binary"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClassOf(t *testing.T) {
	last := -1
	for n := 1; n < 1<<22; n += 1 + n/97 {
		class, size := classOf(n)
		require.GreaterOrEqual(t, size, n)
		if n > 512 {
			require.LessOrEqual(t, size, n+n/4+1, "at most a quarter larger: %d", n)
		}
		again, same := classOf(size)
		require.Equal(t, class, again)
		require.Equal(t, size, same)
		require.GreaterOrEqual(t, class, last)
		last = class
	}
	class, _ := classOf(100 << 20)
	require.Less(t, class, classes)
}

// half sends a frame's prefix that claims size bytes, and some of its body.
func half(size, sent int) []byte {
	p := make([]byte, 8+sent)
	binary.BigEndian.PutUint32(p, uint32(size))
	binary.BigEndian.PutUint16(p[6:], 3) // produce version 3
	return p
}

// TestServer_HalfSentFrames: 500 connections hold half-sent frames of 1 MiB at the bound. Memory stays in it, other
// requests go on, and produces get through after the stalled ones are closed.
func TestServer_HalfSentFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 32 << 20
		s, p, stop := start(t, Config{Handler: echo, ProduceMemory: bound})
		defer stop()
		for range 500 {
			c := p.dial()
			defer c.Close()
			go func() { _, _ = c.Write(half(1<<20, 100<<10)) }()
		}
		synctest.Wait()
		require.LessOrEqual(t, s.produce.used.Load(), int64(bound)*5/4)

		other := p.dial()
		defer other.Close()
		began := time.Now()
		write(t, other, request(metadata, 1, "m"))
		requireResponse(t, other, 1, "m")
		require.Zero(t, time.Since(began), "metadata does not wait")

		producer := p.dial()
		defer producer.Close()
		go func() { _, _ = producer.Write(request(produce, 2, "p")) }()
		requireResponse(t, producer, 2, "p")
		require.Less(t, time.Since(began), time.Minute, "behind 500 others in line")
	})
}

// TestServer_ProducersAtWorkGoFirst: connections that delivered frames before get memory as soon as some comes free,
// before hundreds that never did; and those are not starved either.
func TestServer_ProducersAtWorkGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, stop := start(t, Config{Handler: echo, ProduceMemory: 8 << 20})
		defer stop()
		producer := p.dial()
		defer producer.Close()
		go func() { _, _ = producer.Write(request(produce, 1, "p")) }()
		requireResponse(t, producer, 1, "p")
		for range 500 {
			c := p.dial()
			defer c.Close()
			go func() { _, _ = c.Write(half(1<<20, 100<<10)) }()
		}
		synctest.Wait()
		fresh := p.dial()
		defer fresh.Close()
		freshIn := false
		go func() {
			_, _ = fresh.Write(request(produce, 1, "f"))
			_, _, err := readResponse(fresh)
			freshIn = err == nil
		}()
		began := time.Now()
		for i := range int32(50) {
			before := time.Now()
			go func() { _, _ = producer.Write(request(produce, i+2, "p")) }()
			requireResponse(t, producer, i+2, "p")
			require.LessOrEqual(t, time.Since(before), 2*(stallTimeout+evictInterval))
		}
		<-time.After(5*time.Minute - time.Since(began))
		synctest.Wait()
		require.True(t, freshIn, "the last in line got in as well")
	})
}

// A frame that claims all there is and comes byte by byte holds the memory of its bytes, and delays no other.
func TestServer_ATrickleDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, stop := start(t, Config{Handler: echo, ProduceMemory: 32 << 20})
		defer stop()
		trickle := p.dial()
		var trickling sync.WaitGroup
		defer trickling.Wait()
		defer trickle.Close()
		trickling.Go(func() {
			_, err := trickle.Write(half(DefaultMaxRequestBytes, 1))
			for err == nil {
				<-time.After(stallTimeout / 2)
				_, err = trickle.Write([]byte{0})
			}
		})
		<-time.After(time.Minute / 2)
		synctest.Wait()
		require.EqualValues(t, firstBuffer, s.produce.used.Load())
		producer := p.dial()
		defer producer.Close()
		began := time.Now()
		go func() { _, _ = producer.Write(request(produce, 1, string(make([]byte, 20<<20)))) }()
		_, _, err := readResponse(producer)
		require.NoError(t, err)
		require.Zero(t, time.Since(began))
	})
}

// Frames that claim 100 MiB and come at a rate above slowRate fill the memory. A smaller frame waits for little more than evictAfter.
func TestServer_LargeClaimsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, stop := start(t, Config{Handler: echo, ProduceMemory: 32 << 20})
		defer stop()
		over := make(chan struct{})
		var attackers sync.WaitGroup
		defer attackers.Wait()
		defer close(over)
		for range 60 {
			attackers.Go(func() {
				for { // each connects again when it is closed
					c := p.dial()
					_, err := c.Write(half(DefaultMaxRequestBytes, 1))
					for err == nil {
						select {
						case <-over:
							_ = c.Close()
							return
						case <-time.After(100 * time.Millisecond):
						}
						_, err = c.Write(make([]byte, 60<<10))
					}
					_ = c.Close()
				}
			})
		}
		<-time.After(10 * time.Second)
		longest := time.Duration(0)
		for range 30 {
			producer := p.dial()
			began := time.Now()
			go func() { _, _ = producer.Write(request(produce, 1, string(make([]byte, 1<<20)))) }()
			_, _, err := readResponse(producer)
			require.NoError(t, err)
			longest = max(longest, time.Since(began))
			_ = producer.Close()
			require.LessOrEqual(t, s.produce.used.Load(), int64(32<<20+2*DefaultMaxRequestBytes))
			<-time.After(time.Second)
		}
		t.Logf("longest wait: %s", longest)
		require.LessOrEqual(t, longest, 2*(evictAfter+2*evictInterval), "for the first buffers, and for the last")
	})
}

// Two frames that each need most of the memory arrive at the same time.
func TestServer_HalfArrivedFramesDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, stop := start(t, Config{Handler: echo, ProduceMemory: 32 << 20})
		defer stop()
		began := time.Now()
		var clients sync.WaitGroup
		for range 3 {
			c := p.dial()
			defer c.Close()
			clients.Go(func() {
				for part := range slices.Chunk(request(produce, 1, string(make([]byte, 30<<20))), 10<<20) {
					_, _ = c.Write(part)
					<-time.After(100 * time.Millisecond)
				}
			})
			clients.Go(func() {
				_, _, err := readResponse(c)
				assert.NoError(t, err)
			})
		}
		clients.Wait()
		require.Less(t, time.Since(began), time.Second)
		synctest.Wait()
		require.Zero(t, s.produce.used.Load())
	})
}

// TestServer_SlowFrameIsTakenWithoutPressure: without waiting frames, a slow sender keeps its connection.
func TestServer_SlowFrameIsTakenWithoutPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, stop := start(t, Config{Handler: echo})
		defer stop()
		c := p.dial()
		defer c.Close()
		frame := request(produce, 1, string(make([]byte, 200_000)))
		go func() {
			for ; len(frame) > 20_000; frame = frame[20_000:] {
				_, _ = c.Write(frame[:20_000])
				<-time.After(10 * time.Second) // the sender's pace, on synctest's clock
			}
			_, _ = c.Write(frame)
		}()
		_, body, err := readResponse(c)
		require.NoError(t, err)
		require.Len(t, body, 200_000)
	})
}

// TestServer_ClaimAllocatesNothing: a claimed length alone takes one first buffer.
func TestServer_ClaimAllocatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, stop := start(t, Config{Handler: echo, ProduceMemory: 1 << 40})
		defer stop()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 20 {
			c := p.dial()
			defer c.Close()
			write(t, c, half(DefaultMaxRequestBytes, 100))
		}
		synctest.Wait()
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(20*16<<10), "with the buffers of a connection")
	})
}

// TestServer_ReleasedFramesLetOthersIn: a handler that holds its frames holds back produces; Release frees them
// before the answer.
func TestServer_ReleasedFramesLetOthersIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type held struct {
			req    *Request
			answer chan struct{}
		}
		started := make(chan held, 10)
		h := handlerFunc(func(_ context.Context, req *Request) func() Reply {
			x := held{req, make(chan struct{})}
			started <- x
			return func() Reply { <-x.answer; return Reply{} }
		})
		s, p, stop := start(t, Config{Handler: h, ProduceMemory: 1 << 20})
		defer stop()
		for range 4 {
			c := p.dial()
			defer c.Close()
			go func() { _, _ = c.Write(request(produce, 1, string(make([]byte, 500<<10)))) }()
			synctest.Wait()
		}
		require.Len(t, started, 3, "two frames of 512 KiB fit, and one exceeds the limit")
		<-time.After(time.Minute) // whole frames are not evicted
		require.Len(t, s.connections(), 4)
		first := <-started
		first.req.Release()
		first.req.Release()
		synctest.Wait()
		require.Len(t, started, 3, "the fourth came in")
		close(first.answer)
		for range 3 {
			close((<-started).answer)
		}
		synctest.Wait()
		require.Zero(t, s.produce.used.Load())
	})
}

// TestServer_SmallFramesNeverWait: frames that claim much and stop delay no small request.
func TestServer_SmallFramesNeverWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, stop := start(t, Config{Handler: echo, OtherMemory: 4 << 20})
		defer stop()
		for range 50 {
			c := p.dial()
			defer c.Close()
			p := half(1<<20, 200<<10)
			p[5] = byte(metadata)
			p[7] = 0
			go func() { _, _ = c.Write(p) }()
		}
		synctest.Wait()
		require.Less(t, int64(4<<20-256<<10), s.others.used.Load())
		other := p.dial()
		defer other.Close()
		began := time.Now()
		write(t, other, request(metadata, 1, "m"))
		requireResponse(t, other, 1, "m")
		require.Zero(t, time.Since(began))
	})
}

// TestServer_Reclaim: when answers press on memory, clients that do not take theirs lose their connections.
func TestServer_Reclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		big := handlerFunc(func(context.Context, *Request) func() Reply {
			return func() Reply { return Reply{Tail: net.Buffers{make([]byte, 4<<20)}} }
		})
		s, p, stop := start(t, Config{Handler: big})
		defer stop()
		slow, idle := p.dial(), p.dial()
		defer slow.Close()
		defer idle.Close()
		write(t, slow, request(fetch, 1, "x")) // and never reads
		<-time.After(stallTimeout - time.Millisecond)
		s.Reclaim()
		synctest.Wait()
		require.Len(t, s.connections(), 2)
		<-time.After(evictInterval)
		s.Reclaim()
		synctest.Wait()
		require.Len(t, s.connections(), 1)
		require.Zero(t, s.UnsentBytes())
	})
}

func TestServer_Timeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		big := handlerFunc(func(context.Context, *Request) func() Reply {
			return func() Reply { return Reply{Tail: net.Buffers{make([]byte, 4<<20)}} }
		})
		s, p, stop := start(t, Config{Handler: big})
		defer stop()
		idle, stalled, slow := p.dial(), p.dial(), p.dial()
		defer slow.Close()
		write(t, stalled, half(1000, 10))
		write(t, slow, request(fetch, 1, "x")) // and never reads
		write(t, idle, request(fetch, 1, "x"))
		_, _, err := readResponse(idle)
		require.NoError(t, err)
		<-time.After(time.Second)
		require.EqualValues(t, 4<<20, s.UnsentBytes())
		require.Len(t, s.connections(), 3)

		began := time.Now()
		requireClosed(t, stalled)
		require.InDelta(t, time.Minute, time.Since(began), float64(2*sweepInterval))
		synctest.Wait()
		require.Len(t, s.connections(), 1, "the slow reader is gone too")
		require.Zero(t, s.UnsentBytes())
		requireClosed(t, idle)
		require.InDelta(t, 10*time.Minute, time.Since(began), float64(2*sweepInterval))
	})
}

// TestServer_RequestsBehindAParkedFetchHoldNoMemory: clients that send large requests behind fetches that wait for
// ever keep no other client out.
func TestServer_RequestsBehindAParkedFetchHoldNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		park := handlerFunc(func(ctx context.Context, req *Request) func() Reply {
			if req.Key == metadata {
				return echo.Start(ctx, req)
			}
			req.Release()
			return func() Reply { <-ctx.Done(); return Reply{} }
		})
		s, p, stop := start(t, Config{Handler: park, OtherMemory: 1 << 20})
		defer stop()
		for range 10 {
			c := p.dial()
			defer c.Close()
			write(t, c, request(fetch, 1, "parked"))
			go func() { _, _ = c.Write(request(metadata, 2, string(make([]byte, 500<<10)))) }()
		}
		synctest.Wait()
		require.Zero(t, s.others.used.Load())
		other := p.dial()
		defer other.Close()
		began := time.Now()
		write(t, other, request(metadata, 1, "m"))
		requireResponse(t, other, 1, "m")
		require.Zero(t, time.Since(began))
	})
}

// 60 connections send frames of 1 MiB at 800 KB/s, a rate that is allowed. A client whose frame of 8 MiB arrives at 4 MB/s tries for a minute.
func TestServer_LargeFrameIsServedWhileSmallerOnesCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, stop := start(t, Config{Handler: echo, ProduceMemory: 16 << 20})
		defer stop()
		over := make(chan struct{})
		var all sync.WaitGroup
		defer all.Wait()
		defer close(over)
		for range 60 {
			all.Go(func() {
				for {
					c := p.dial()
					_, err := c.Write(half(1<<20, 1))
					for sent := 1; err == nil && sent+80<<10 < 1<<20; sent += 80 << 10 { // the end is not sent
						select {
						case <-over:
							_ = c.Close()
							return
						case <-time.After(100 * time.Millisecond):
						}
						_, err = c.Write(make([]byte, 80<<10))
					}
					for err == nil { // until the connection is closed
						_, err = c.Read(make([]byte, 1))
					}
					_ = c.Close()
				}
			})
		}
		<-time.After(10 * time.Second)
		began, tries, served := time.Now(), 0, false
		for ; !served && time.Since(began) < time.Minute; tries++ {
			c := p.dial()
			go func() {
				frame := request(produce, 1, string(make([]byte, 8<<20)))
				for len(frame) > 0 {
					n := min(len(frame), 400<<10)
					if _, err := c.Write(frame[:n]); err != nil {
						return
					}
					frame = frame[n:]
					<-time.After(100 * time.Millisecond)
				}
			}()
			_, _, err := readResponse(c)
			served = err == nil
			_ = c.Close()
		}
		t.Logf("served after %s", time.Since(began))
		require.True(t, served)
		require.Equal(t, 1, tries, "a frame that arrives quickly is not closed for smaller ones")
	})
}
