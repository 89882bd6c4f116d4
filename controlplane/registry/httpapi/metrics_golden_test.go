package httpapi

import (
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/metrictest"
)

func TestMetrics_Golden(t *testing.T) {
	r := metrictest.NewRegistry()
	_, err := NewServer(ServerConfig{TLS: &tls.Config{MinVersion: tls.VersionTLS12}, Log: zap.NewNop(), Registerer: r})
	require.NoError(t, err)
	r.Golden(t)
}
