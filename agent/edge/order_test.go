package edge

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// manual is a handler whose requests are answered by the test.
type manual struct {
	started chan string          // bodies, as requests start
	answers map[string]chan bool // by body; closed or sent to: answer
}

func newManual(bodies ...string) *manual {
	m := &manual{started: make(chan string, 100), answers: map[string]chan bool{}}
	for _, b := range bodies {
		m.answers[b] = make(chan bool, 1)
	}
	return m
}

func (m *manual) Start(ctx context.Context, req *Request) func() Reply {
	body := string(req.Body)
	m.started <- body
	return func() Reply {
		select {
		case <-m.answers[body]:
		case <-ctx.Done():
		}
		return Reply{Head: []byte("re:" + body)}
	}
}

func (m *manual) startedNow() []string {
	synctest.Wait()
	var all []string
	for len(m.started) > 0 {
		all = append(all, <-m.started)
	}
	return all
}

// TestServer_Order: produces overlap each other, other requests wait for the other requests before them, and answers
// keep the order of requests.
func TestServer_Order(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManual("p1", "p2", "f1", "m1", "p3")
		_, p, stop := start(t, Config{Handler: m})
		defer stop()
		c := p.dial()
		defer c.Close()

		write(t, c, request(produce, 1, "p1"))
		write(t, c, request(produce, 2, "p2"))
		write(t, c, request(fetch, 3, "f1"))
		require.Equal(t, []string{"p1", "p2", "f1"}, m.startedNow(), "a fetch does not wait for produces")

		go write(t, c, append(request(metadata, 4, "m1"), request(produce, 5, "p3")...))
		require.Empty(t, m.startedNow(), "metadata waits for the fetch before it")

		m.answers["p2"] <- true // out of order
		m.answers["f1"] <- true
		require.Empty(t, m.startedNow())
		m.answers["p1"] <- true
		requireResponse(t, c, 1, "re:p1")
		requireResponse(t, c, 2, "re:p2")
		requireResponse(t, c, 3, "re:f1")
		require.Equal(t, []string{"m1", "p3"}, m.startedNow())
		m.answers["p3"] <- true
		m.answers["m1"] <- true
		requireResponse(t, c, 4, "re:m1")
		requireResponse(t, c, 5, "re:p3")
	})
}

func TestServer_PipelineIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManual("p")
		_, p, stop := start(t, Config{Handler: m, MaxPipelined: 3})
		defer stop()
		c := p.dial()
		defer c.Close()
		go func() {
			for i := range 10 {
				if _, err := c.Write(request(produce, int32(i), "p")); err != nil {
					return
				}
			}
		}()
		require.Len(t, m.startedNow(), 3)
		m.answers["p"] <- true
		requireResponse(t, c, 0, "re:p")
		require.Len(t, m.startedNow(), 1)
	})
}

// TestServer_ConnectionBytesAreBounded sends requests until the unanswered ones hold connectionBytes, or more with the last one. Further requests
// are read when an answer releases memory.
func TestServer_ConnectionBytesAreBounded(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		sizes []int // of the buffers of requests
		taken int   // requests, until one is answered
		next  int   // further requests then
	}{
		"at the bound":           {[]int{16 * mib, 16 * mib, 16 * mib, 16 * mib, mib, mib}, 4, 2},
		"below the bound":        {[]int{16 * mib, 16 * mib, 16 * mib, 14 * mib, mib, mib, mib}, 6, 1},
		"above it with one":      {[]int{16 * mib, 16 * mib, 16 * mib, 14 * mib, 20 * mib, mib}, 5, 0},
		"one request larger yet": {[]int{80 * mib, mib}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started, answer := make(chan int, len(c.sizes)), make(chan bool, 1)
				_, p, stop := start(t, Config{Handler: handlerFunc(func(ctx context.Context, req *Request) func() Reply {
					started <- len(req.Body)
					return func() Reply {
						select {
						case <-answer:
						case <-ctx.Done():
						}
						return Reply{Head: []byte("a")}
					}
				})})
				defer stop()
				conn := p.dial()
				defer conn.Close()
				go func() {
					const header = 8 // bytes of the buffer before the body: correlation ID and client ID
					for i, size := range c.sizes {
						if _, err := conn.Write(request(produce, int32(i), string(make([]byte, size-header)))); err != nil {
							return
						}
					}
				}()
				synctest.Wait()
				require.Len(t, started, c.taken)
				answer <- true
				requireResponse(t, conn, 0, "a")
				synctest.Wait()
				require.Len(t, started, c.taken+c.next)
			})
		})
	}
}

func TestServer_SilentAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := 0
		h := handlerFunc(func(_ context.Context, req *Request) func() Reply {
			body := string(req.Body)
			return func() Reply {
				return Reply{
					Head: []byte(body), Silent: body == "silent" || body == "close", Close: body == "close",
					Release: func() { released++ },
				}
			}
		})
		_, p, stop := start(t, Config{Handler: h})
		defer stop()
		c := p.dial()
		go func() {
			for i, body := range []string{"silent", "loud", "close", "never"} {
				_, _ = c.Write(request(produce, int32(i), body))
			}
		}()
		requireResponse(t, c, 1, "loud")
		requireClosed(t, c)
		synctest.Wait()
		require.GreaterOrEqual(t, released, 3)
	})
}

func TestServer_PanicClosesOnlyItsConnection(t *testing.T) {
	for _, where := range []string{"start", "wait"} {
		t.Run("in "+where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := handlerFunc(func(ctx context.Context, req *Request) func() Reply {
					if string(req.Body) == "start" {
						panic("boom")
					}
					if string(req.Body) == "wait" {
						return func() Reply { panic("boom") }
					}
					return echo(ctx, req)
				})
				s, p, stop := start(t, Config{Handler: h})
				defer stop()
				bad, good := p.dial(), p.dial()
				defer good.Close()
				write(t, bad, request(produce, 1, where))
				requireClosed(t, bad)
				write(t, good, request(produce, 1, "fine"))
				requireResponse(t, good, 1, "fine")
				synctest.Wait()
				require.Zero(t, s.produce.used.Load(), "the frame's memory came back")
			})
		})
	}
}

func TestServer_ContextEndsWithConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManual("f")
		s, p, stop := start(t, Config{Handler: m})
		defer stop()
		c := p.dial()
		write(t, c, request(fetch, 1, "f"))
		require.Len(t, m.startedNow(), 1)
		_ = c.Close()
		synctest.Wait()
		require.Empty(t, s.connections())
		require.Zero(t, s.others.used.Load())
	})
}

// TestServer_DrainKeepsAnswers: a client that leaves requests unread at the server still receives the answers that were sent.
func TestServer_DrainKeepsAnswers(t *testing.T) {
	s, err := New(Config{Handler: echo, Listeners: []Listener{{Address: "127.0.0.1:0"}}})
	require.NoError(t, err)
	require.NoError(t, s.Listen(t.Context()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	c := dial(t, s.Addrs()[0].String())
	go func() {
		for i := int32(0); ; i++ {
			if _, err := c.Write(request(produce, i, "p")); err != nil {
				return
			}
		}
	}()
	requireResponse(t, c, 0, "p")
	cancel()
	for i := int32(1); ; i++ {
		correlation, _, err := readResponse(c)
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
		require.Equal(t, i, correlation)
	}
	_ = c.Close()
	require.NoError(t, <-done)
}

func TestServer_Drain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManual("p1", "p2")
		_, p, stop := start(t, Config{Handler: m})
		c, stuck := p.dial(), p.dial()
		write(t, c, request(produce, 1, "p1"))
		write(t, stuck, request(produce, 1, "p2"))
		synctest.Wait()
		done := make(chan struct{})
		go func() { stop(); close(done) }()
		synctest.Wait()
		m.answers["p1"] <- true
		requireResponse(t, c, 1, "re:p1")
		requireClosed(t, c)
		<-done // p2 is never answered: DrainTimeout ends it
		requireClosed(t, stuck)
	})
}

// TestServer_HangUp: a drained listener answers the requests that it read, closes its connections, and accepts no more.
func TestServer_HangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManual("p1", "p2")
		s, p, stop := start(t, Config{Handler: m})
		busy, idle := p.dial(), p.dial()
		write(t, busy, request(produce, 1, "p1"))
		synctest.Wait()
		s.HangUp("other")
		write(t, busy, request(produce, 2, "p2"))
		synctest.Wait()
		s.HangUp("test")
		requireClosed(t, idle)
		<-p.closed
		for _, answer := range []string{"p1", "p2"} {
			m.answers[answer] <- true
		}
		requireResponse(t, busy, 1, "re:p1")
		requireResponse(t, busy, 2, "re:p2")
		requireClosed(t, busy)
		late, server := net.Pipe()
		s.admit(t.Context(), server, s.cfg.Listeners[0]) // accepted meanwhile
		requireClosed(t, late)
		stop()
	})
}

// TestClient_Parked: a window is parked while its requests wait for answers and the client sends nothing.
func TestClient_Parked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManual("p1", "p2", "p3", "f1")
		var client *Client
		handler := handlerFunc(func(ctx context.Context, req *Request) func() Reply {
			client = req.Client
			return m.Start(ctx, req)
		})
		_, p, stop := start(t, Config{Handler: handler})
		defer stop()
		c := p.dial()
		defer c.Close()

		write(t, c, request(produce, 1, "p1"))
		write(t, c, request(produce, 2, "p2"))
		synctest.Wait()
		require.True(t, client.Parked(2))
		require.False(t, client.Parked(1), "another request is in flight")

		third := request(produce, 3, "p3")
		write(t, c, third[:len(third)-1])
		synctest.Wait()
		require.False(t, client.Parked(2), "a request is arriving")
		write(t, c, third[len(third)-1:])
		synctest.Wait()
		require.True(t, client.Parked(3))

		close(m.answers["p1"])
		requireResponse(t, c, 1, "re:p1")
		synctest.Wait()
		require.True(t, client.Parked(2))
		write(t, c, request(fetch, 4, "f1"))
		synctest.Wait()
		require.False(t, client.Parked(2), "a fetch is in flight")
		for i, body := range []string{"p2", "p3", "f1"} {
			close(m.answers[body])
			requireResponse(t, c, int32(i+2), "re:"+body)
		}
		synctest.Wait()
		require.True(t, client.Parked(0))
	})
}
