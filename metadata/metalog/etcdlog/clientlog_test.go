package etcdlog

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

func TestSeldom_SaysWhyOnce(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	log := seldom(zap.New(core))
	err := grpcstatus.Error(codes.DeadlineExceeded, `latest balancer error: connection error: desc = "transport: connection refused"`)
	for range 3 {
		log.Warn(failedCall, zap.String("target", "x"), zap.String("method", "/etcdserverpb.KV/Range"), zap.Error(err))
	}
	log.Warn("another thing", zap.String("target", "x"))
	require.Len(t, logs.All(), 2)
	first, other := logs.All()[0], logs.All()[1]
	require.Equal(t, "etcd does not answer", first.Message)
	require.Equal(t, map[string]any{"method": "/etcdserverpb.KV/Range", "error": "connection refused"}, first.ContextMap())
	require.Equal(t, map[string]any{"target": "x"}, other.ContextMap())
}
