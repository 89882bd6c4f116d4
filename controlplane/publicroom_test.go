package controlplane

import (
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// TestControlPlane_EtcdFullForSecrets: keys and tokens have room for longer than other records, so that leaked ones can be replaced.
func TestControlPlane_EtcdFullForSecrets(t *testing.T) {
	c := &ControlPlane{space: newEtcdSpace(nil, alone, zap.NewNop(), prometheus.NewRegistry())}
	for _, at := range []struct {
		fullness      float64
		crowded, full bool
	}{{0, false, false}, {0.699, false, false}, {0.7, true, false}, {0.949, true, false}, {0.95, true, true}, {1.1, true, true}} {
		c.space.bits.Store(math.Float64bits(at.fullness))
		require.Equal(t, at.crowded, c.etcdCrowded(), "%v", at.fullness)
		require.Equal(t, at.full, c.etcdFull(), "%v", at.fullness)
	}
}
