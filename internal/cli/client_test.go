package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/internal/testservers"
)

// TestFirstAnswer: one waits for what tells, and for nothing else.
func TestFirstAnswer(t *testing.T) {
	const late = foreignAfter + 500*time.Millisecond // when the look is under way
	broken, foreign := errors.New("broken"), errors.New("foreign")
	for name, c := range map[string]struct {
		ask, look  time.Duration // what each takes
		asked, saw error
		want       error
		takes      time.Duration
	}{
		"an answer soon":                   {ask: 0, saw: foreign, want: nil, takes: 0},
		"an answer while it looks":         {ask: late, look: time.Hour, want: nil, takes: late},
		"an answer after the look":         {ask: time.Minute, look: time.Second, want: nil, takes: time.Minute},
		"foreign, and never an answer":     {ask: time.Hour, look: time.Second, asked: broken, saw: foreign, want: foreign, takes: foreignAfter + time.Second},
		"a failure soon, of a foreigner":   {ask: 0, look: time.Second, asked: broken, saw: foreign, want: foreign, takes: time.Second},
		"a failure while it looks":         {ask: late, look: time.Minute, asked: broken, saw: foreign, want: foreign, takes: foreignAfter + time.Minute},
		"a failure, and it is not foreign": {ask: late, look: time.Second, asked: broken, want: broken, takes: foreignAfter + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				closed, hangUp := context.WithCancel(t.Context())
				defer hangUp()
				var running atomic.Int32
				takes := func(ctx context.Context, d time.Duration, err error) error {
					running.Add(1)
					defer running.Add(-1)
					select {
					case <-time.After(d):
					case <-ctx.Done():
					}
					return err
				}
				begin := time.Now()
				err := firstAnswer(t.Context(),
					func(context.Context) error { return takes(closed, c.ask, c.asked) },
					func(ctx context.Context) error { return takes(ctx, c.look, c.saw) }, hangUp)
				require.Equal(t, c.want, err)
				require.Equal(t, c.takes, time.Since(begin))
				require.Zero(t, running.Load(), "both have returned")
			})
		})
	}
}

func TestExplain_RequestToSeveralAgents(t *testing.T) {
	t.Parallel()
	several := &kadm.ShardErrors{Name: "ListOffsets", Errs: []kadm.ShardError{{Err: io.ErrUnexpectedEOF}, {Err: io.EOF}}}
	require.EqualError(t, explain("orders", several), `topic "orders": unexpected EOF`)
	require.ErrorContains(t, explain("orders", kerr.NotLeaderForPartition), "/readyz of agents")
}

func TestClientConfig_UnreachableIsStopped(t *testing.T) {
	t.Parallel()
	c := ClientConfig{Bootstrap: []string{"127.0.0.1:1"}}
	err := c.unreachable(&net.OpError{Op: "dial", Err: context.Canceled})
	require.EqualError(t, err, "stopped before an agent at 127.0.0.1:1 answered")
	require.ErrorIs(t, err, context.Canceled)
}

// TestClientConfig_UnknownAuthority: the error of a certificate names the flag that has the authority.
func TestClientConfig_UnknownAuthority(t *testing.T) {
	listener, err := tls.Listen("tcp", "127.0.0.1:0", testservers.NewTLSFiles(t).Config)
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1)) // a handshake, until the client hangs up
			_ = conn.Close()
		}
	}()
	c := ClientConfig{Bootstrap: []string{listener.Addr().String()}, TLS: true}
	_, err = c.dial(t.Context())
	require.ErrorContains(t, err, "unknown authority; if it is a private authority, give its certificate with --tls-ca FILE")
}
