package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/testservers"
)

// The first warning of a control plane whose certificate has an unknown authority names the setting, and so does the fault that /readyz shows.
func TestSession_NamesTheSettingOfAnUnknownAuthority(t *testing.T) {
	socket, err := tls.Listen("tcp", "127.0.0.1:0", testservers.NewTLSFiles(t).Config)
	require.NoError(t, err)
	defer socket.Close()
	go func() {
		for {
			conn, err := socket.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake() // the client ends it
			_ = conn.Close()
		}
	}()
	core, logged := observer.New(zap.WarnLevel)
	s, err := New(Config{
		Replicas: []string{socket.Addr().String()}, AgentKey: "k", TLS: &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12},
		Endpoints: []*api.Endpoint{{Host: "a", Port: 1}}, Handler: struct{ Handler }{}, Log: zap.New(core),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	require.Eventually(t, func() bool { return logged.Len() > 0 }, time.Minute, 10*time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	const says = "certificate signed by unknown authority; if it is a private authority, give its certificate with --control-plane-tls-ca FILE"
	require.Contains(t, logged.All()[0].ContextMap()["error"], says)
	require.ErrorContains(t, s.Fault(), says)
}
