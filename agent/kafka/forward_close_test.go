package kafka

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/controlplane/client"
)

// TestForward_AfterTheConnectionClosed: a request whose client did not wait reaches the owner, for a bounded time; one
// that would wait for other members, or fence its client's next attempt, or whose age is not known, does not.
func TestForward_AfterTheConnectionClosed(t *testing.T) {
	for _, c := range []struct {
		key     kmsg.Key
		version int16
		passed  bool
		lasts   time.Duration
		leaves  bool
	}{
		{kmsg.LeaveGroup, 5, true, 6 * time.Second, false},
		{kmsg.OffsetCommit, 9, true, time.Second, false},
		{kmsg.ConsumerGroupHeartbeat, 1, true, 0, false},
		{kmsg.ConsumerGroupHeartbeat, 1, true, 6 * time.Second, true},
		{kmsg.Heartbeat, 4, true, 0, false},
		{kmsg.DescribeGroups, 5, true, 0, false},
		{kmsg.EndTxn, 5, true, 0, false},
		{kmsg.EndTxn, 4, false, 0, false},
		{kmsg.JoinGroup, 9, true, 0, false},
		{kmsg.InitProducerID, 5, true, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			passed, lasted := false, time.Duration(-1)
			cfg := Config{
				Forwarder: forwarderFunc(func(ctx context.Context, _ client.Forward) ([]byte, error) {
					passed = true
					<-ctx.Done()
					lasted = time.Since(began)
					return nil, client.ErrUnavailable
				}),
				Prober: proberFunc(func(ctx context.Context) (uint64, error) { <-ctx.Done(); return 0, ctx.Err() }),
			}
			cfg.ApplyDefaults()
			ctx, closeConnection := context.WithCancel(t.Context())
			in := anyRequest(int16(c.key))
			if heartbeat, ok := in.(*kmsg.ConsumerGroupHeartbeatRequest); ok && c.leaves {
				heartbeat.MemberEpoch = -1
			}
			in.SetVersion(c.version)
			wait := newForwarded(int16(c.key), cfg).Start(ctx, &edge.Request{
				Key: int16(c.key), Version: c.version, Body: in.AppendTo(nil), Arrived: time.Now(), Client: &edge.Client{},
			})
			closeConnection()
			wait()
			require.Equal(t, c.passed, passed, c.key)
			if passed {
				require.Equal(t, c.lasts, lasted, c.key)
			}
		})
	}
}

// TestForward_PipelinedAndGone: a client sends three requests and closes without reading one answer.
func TestForward_PipelinedAndGone(t *testing.T) {
	keys, release := make(chan int16, 3), make(chan struct{})
	h, err := New(Config{APIs: with(), Forwarder: forwarderFunc(func(ctx context.Context, f client.Forward) ([]byte, error) {
		keys <- f.Key
		select {
		case <-release:
		case <-ctx.Done():
			t.Errorf("api key %d ends with its connection", f.Key)
		}
		if f.Key == int16(kmsg.LeaveGroup) {
			select { // by then the listener knows that the connection is closed
			case <-ctx.Done():
				t.Error("LeaveGroup ends with its connection")
			case <-time.After(200 * time.Millisecond):
			}
		}
		return []byte("answer"), nil
	})})
	require.NoError(t, err)
	server, err := edge.New(edge.Config{Handler: h, Listeners: []edge.Listener{{Name: "test", Address: "127.0.0.1:0"}}})
	require.NoError(t, err)
	require.NoError(t, server.Listen(t.Context()))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	defer func() {
		cancel()
		require.NoError(t, <-ended)
	}()

	conn, err := net.Dial("tcp", server.Addrs()[0].String())
	require.NoError(t, err)
	format := kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw"))
	sent := []kmsg.Key{kmsg.OffsetCommit, kmsg.OffsetCommit, kmsg.LeaveGroup}
	var frames []byte
	for i, key := range sent {
		in := anyRequest(int16(key))
		in.SetVersion(4)
		frames = append(frames, format.AppendRequest(nil, in, int32(i))...)
	}
	_, err = conn.Write(frames)
	require.NoError(t, err)
	for i, key := range sent {
		select {
		case got := <-keys:
			require.Equal(t, int16(key), got)
		case <-time.After(time.Minute):
			t.Fatalf("api key %d did not reach the owner", key)
		}
		if i == 0 {
			require.NoError(t, conn.Close())
			close(release)
		}
	}
}
