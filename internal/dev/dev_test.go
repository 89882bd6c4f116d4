package dev

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/freshet-io/freshet/agent"
	"github.com/freshet-io/freshet/internal/access"
)

// TestRun_NamedListener checks that the addresses for clients, in the ready lines and in the data directory, have no listener's name.
func TestRun_NamedListener(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an etcd; make test runs it")
	}
	ready, out := io.Pipe()
	a := agent.Config{Listen: []string{"host=127.0.0.1:0"}, HTTPListen: "127.0.0.1:0", MemoryLimit: 256 << 20}
	a.ApplyDefaults()
	cfg := Config{DataDir: t.TempDir(), Agent: a, Out: out, Program: "freshet", Log: zaptest.NewLogger(t)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		err := Run(ctx, cfg)
		_ = out.CloseWithError(fmt.Errorf("the end of Run: %w", err))
		ended <- err
	}()
	lines := bufio.NewReader(ready)
	greeting, err := lines.ReadString('\n')
	require.NoError(t, err)
	stop()
	rest, _ := io.ReadAll(lines)
	require.Regexp(t, `(?s)\nwrites:  at most 50 PUTs a second, .*\nstopping \.\.\.\ndone\n$`, string(rest))
	require.NoError(t, <-ended)
	found, err := access.Read(cfg.DataDir)
	require.NoError(t, err)
	require.Regexp(t, `^127\.0\.0\.1:\d+$`, found.Kafka)
	require.Equal(t, "freshet is ready, bootstrap address "+found.Kafka+"\n", greeting)
}
