package agent

import (
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"
)

// lonely is the configuration of an agent whose control plane is not there.
func lonely(t *testing.T) Config {
	t.Helper()
	return Config{
		VirtualCluster: "main", ControlPlane: []string{"127.0.0.1:1"}, AgentKey: "key", BucketURL: "mem://",
		Listen: []string{"127.0.0.1:0", "127.0.0.1:0"}, HTTPListen: "127.0.0.1:0", MemoryLimit: minMemory,
		DrainTimeout: time.Second, Hedge: true, Log: zaptest.NewLogger(t),
	}
}

// TestAgent_RunsAndStopsWithoutControlPlane: it listens, says that it is not ready, and ends in time (degraded).
func TestAgent_RunsAndStopsWithoutControlPlane(t *testing.T) {
	defer goleak.VerifyNone(t)
	a, err := New(t.Context(), lonely(t))
	require.NoError(t, err)
	addresses := a.Addresses()
	require.Len(t, addresses, 2)
	require.NotEqual(t, addresses[0].Port, addresses[1].Port)

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/metrics": http.StatusOK} {
		resp, err := client.Get("http://" + a.HTTPAddress().String() + path)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode, path)
	}
	conn, err := net.Dial("tcp", addresses[1].String())
	require.NoError(t, err, "clients can connect")
	defer conn.Close()

	cancel()
	require.NoError(t, <-ended)
}

// TestAgent_SaysThatItStops: from the signal on, and while it drains, the agent is not ready, but alive.
func TestAgent_SaysThatItStops(t *testing.T) {
	defer goleak.VerifyNone(t)
	cfg := lonely(t)
	cfg.DrainTimeout = 5 * time.Second
	a, err := New(t.Context(), cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (int, string) {
		resp, err := client.Get("http://" + a.HTTPAddress().String() + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	_, body := get("/readyz")
	require.Contains(t, body, errNoCatalogue.Error())
	cancel()
	code := 0
	for body != "stopping\n" { // within a second: the agent waits for the control plane
		code, body = get("/readyz")
	}
	require.Equal(t, http.StatusServiceUnavailable, code)
	code, _ = get("/livez")
	require.Equal(t, http.StatusOK, code)
	require.NoError(t, <-ended)
}

func TestNew_AddressInUseIsAFaultAndLeavesNothingOpen(t *testing.T) {
	defer goleak.VerifyNone(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	cfg := lonely(t)
	cfg.Listen = []string{taken.Addr().String()}
	_, err = New(t.Context(), cfg)
	require.ErrorContains(t, err, "listen for kafka clients on "+taken.Addr().String())

	cfg = lonely(t)
	cfg.HTTPListen = taken.Addr().String()
	_, err = New(t.Context(), cfg)
	require.ErrorContains(t, err, "listen for http")
}

func TestConfig_ValidateReportsAllFaults(t *testing.T) {
	c := Config{RequestMaxBytes: 1, FlushBytes: 1, Listen: []string{"nowhere"}, DeleteRate: minDeleteRate - 1}
	c.ApplyDefaults()
	err := c.Validate()
	for _, want := range []string{
		"no control-plane address", "no agent key", "no bucket", "memory limit", "nowhere",
		"request size limit", "flush size", "--delete-rate",
	} {
		require.ErrorContains(t, err, want)
	}
	c.Linger, c.FlushInterval, c.DrainTimeout, c.PutBudget, c.FastPutBudget = 0, 0, -1, -1, math.NaN()
	for _, want := range []string{"--linger", "--flush-interval", "--drain-timeout", "--put-budget is not", "--fast-put-budget"} {
		require.ErrorContains(t, c.ValidateWriting(), want)
		require.ErrorContains(t, c.Validate(), want)
	}
	good := lonely(t)
	good.ApplyDefaults()
	require.NoError(t, good.Validate())
}
