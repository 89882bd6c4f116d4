package kafka

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
)

// The time that a request waits is the client's, up to a bound.
func TestWaits_Bounds(t *testing.T) {
	produce := kmsg.NewPtrProduceRequest()
	list := kmsg.NewPtrListOffsetsRequest()
	list.Version = 10
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version = 1
	joinWait := func() time.Duration {
		var cfg Config
		cfg.ApplyDefaults()
		return newForwarded(join.Key(), cfg).timeoutOf(&edge.Request{Key: join.Key(), Version: 1, Body: join.AppendTo(nil)})
	}
	produce.TimeoutMillis, list.TimeoutMillis, join.RebalanceTimeoutMillis = 5_000, 5_000, 50_000
	require.Equal(t, 5*time.Second, produceWait(produce))
	require.Equal(t, 5*time.Second, listWait(list))
	require.Equal(t, 50*time.Second+joinSlack, joinWait())
	produce.TimeoutMillis, list.TimeoutMillis, join.RebalanceTimeoutMillis = math.MaxInt32, math.MaxInt32, math.MaxInt32
	require.Equal(t, maxProduceTimeout, produceWait(produce))
	require.Equal(t, maxListWait, listWait(list))
	require.Equal(t, maxJoinWait, joinWait())
	list.Version = 9
	require.Equal(t, maxListWait, listWait(list))
}
