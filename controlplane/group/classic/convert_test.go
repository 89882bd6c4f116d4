package classic

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGroup_RebalanceAfterRestore(t *testing.T) {
	now := time.Unix(1000, 0)
	r := Record{Generation: 4, ProtocolType: "consumer", Protocol: "range", Leader: "m", Members: []Member{{
		ID: "m", RebalanceTimeout: time.Minute, SessionTimeout: 10 * time.Second, Protocols: []Protocol{{Name: "range"}},
	}}}
	g := Restore("g", Config{}.WithDefaults(), now, r)
	require.Equal(t, Stable, g.State())
	s := g.Rebalance(now, "a member left")
	require.Equal(t, PreparingRebalance, g.State())
	require.Empty(t, s.Writes, "a rebalance is logged when it is complete")
	empty := Restore("g", Config{}.WithDefaults(), now, Record{})
	empty.Rebalance(now, "nobody there")
	require.Equal(t, Empty, empty.State())
}
