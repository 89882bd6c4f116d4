package session

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// One virtual cluster takes no more than its share, and no virtual cluster waits for another one's line.
func TestMessages_Share(t *testing.T) {
	for _, c := range []struct {
		what string
		size int
		most int // of one virtual cluster
	}{
		{"large", maxMessageBytes, 1},
		{"just large", largeMessage + 1, 1},
		{"usual", largeMessage, 2 * messageBytes / shareOfMessages / largeMessage},
		{"above small", smallMessage + 1, 2 * messageBytes / shareOfMessages / (smallMessage + 1)},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := NewMessages(512 << 20)
				loud, quiet := m.share(), m.share()
				ctx, cancel := context.WithCancel(t.Context())
				var gives []func()
				for range c.most {
					give, err := loud.take(ctx, c.size)
					require.NoError(t, err)
					gives = append(gives, give)
				}
				var taken atomic.Int32
				for range 1000 {
					go func() {
						give, err := loud.take(ctx, c.size)
						if err != nil {
							return
						}
						taken.Add(1)
						defer give()
						<-ctx.Done()
					}()
				}
				synctest.Wait()
				require.Zero(t, taken.Load(), "beyond the share")
				give, err := quiet.take(ctx, c.size)
				require.NoError(t, err)
				give()
				give, err = loud.take(ctx, smallMessage)
				require.NoError(t, err, "small messages never wait")
				give()
				gives[0]()
				synctest.Wait()
				require.EqualValues(t, 1, taken.Load(), "the first in line")
				cancel()
				for _, give := range gives[1:] {
					give()
				}
			})
		})
	}
}

// The places of all virtual clusters together are bounded, and all are given back.
func TestMessages_PlacesOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMessages(1 << 40)
		var gives []func()
		for range maxPlaces {
			give, err := m.share().take(t.Context(), maxMessageBytes)
			require.NoError(t, err)
			gives = append(gives, give)
		}
		ctx, cancel := context.WithCancel(t.Context())
		last := m.share()
		go func() {
			synctest.Wait()
			cancel()
		}()
		_, err := last.take(ctx, maxMessageBytes)
		require.ErrorIs(t, err, context.Canceled)
		gives[0]()
		give, err := last.take(t.Context(), maxMessageBytes)
		require.NoError(t, err, "its share was given back")
		for _, give := range append(gives[1:], give) {
			give()
		}
		require.EqualValues(t, maxPlaces, m.largest.mu.free)
		require.Empty(t, m.largest.mu.waiting)
	})
}

// A virtual cluster that uses little waits for one message that is arriving, however many others fill the line with slow ones.
func TestMessages_QuietOnesPass(t *testing.T) {
	for what, size := range map[string]int{"large": maxMessageBytes, "usual": largeMessage} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := NewMessages(512 << 20)
				ctx, cancel := context.WithCancel(t.Context())
				var loud sync.WaitGroup
				for range 40 {
					s := m.share()
					for range 20 {
						loud.Go(func() {
							for {
								give, err := s.take(ctx, size)
								if err != nil {
									return
								}
								time.Sleep(receiveTimeout) // the bubble's time
								give()
							}
						})
					}
				}
				quiet := m.share()
				time.Sleep(5 * time.Minute) // each of the others has had its memory
				var longest time.Duration
				for range 100 {
					began := time.Now()
					give, err := quiet.take(ctx, size)
					require.NoError(t, err)
					longest = max(longest, time.Since(began))
					time.Sleep(10 * time.Millisecond)
					give()
					time.Sleep(time.Second)
				}
				t.Log("longest wait ", longest)
				require.LessOrEqual(t, longest, receiveTimeout)
				for _, l := range []*line{m.largest, m.usual} {
					l.mu.Lock()
					require.LessOrEqual(t, len(l.mu.waiting), 40, "one of each virtual cluster")
					l.mu.Unlock()
				}
				cancel()
				loud.Wait()
				require.EqualValues(t, m.places, m.largest.mu.free)
				require.EqualValues(t, m.places*messageBytes, m.usual.mu.free)
			})
		})
	}
}
