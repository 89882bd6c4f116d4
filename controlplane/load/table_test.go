package load_test

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/metadata/id"
)

var start = time.Unix(1000, 0)

func rate(v float64) *api.Load { return &api.Load{ProduceBytesPerSecond: v} }

func TestTable_KeepsWhatWasHeardOfLate(t *testing.T) {
	var table load.Table
	require.Empty(t, table.Recent(start))
	require.True(t, table.Heard(2, rate(2), start))
	require.True(t, table.Heard(1, rate(3), start.Add(time.Second)))
	require.True(t, table.Heard(4, rate(4), start.Add(time.Second)))
	require.Len(t, table.Recent(start.Add(load.Fresh(rate(2)))), 3)

	require.Equal(t, map[id.Session]load.Agent{
		1: {Load: rate(3), Heard: start.Add(time.Second)}, 4: {Load: rate(4), Heard: start.Add(time.Second)},
	}, table.Recent(start.Add(load.Fresh(rate(2))+1)), "2 was silent too long")

	require.True(t, table.Heard(1, rate(9), start.Add(2*time.Second)))
	table.Forget(4)
	table.Forget(77)
	recent := table.Recent(start.Add(2 * time.Second))
	require.Len(t, recent, 2)
	require.InDelta(t, 9, recent[1].Load.ProduceBytesPerSecond, 0, "the last report")
}

func TestTable_RefusesWhatCannotBe(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for name, bad := range map[string]*api.Load{
		"nothing":            nil,
		"cpu NaN":            {Cpu: nan},
		"cpu negative":       {Cpu: -0.1},
		"cpu huge":           {Cpu: 1001},
		"network infinite":   {Network: inf},
		"network negative":   {Network: -inf},
		"buffers NaN":        {Buffers: nan},
		"buffers huge":       {Buffers: math.MaxFloat64},
		"bytes NaN":          {ProduceBytesPerSecond: nan},
		"bytes negative":     {ProduceBytesPerSecond: -1},
		"bytes beyond bound": {ProduceBytesPerSecond: 1 << 41},
		"budget NaN":         {PutBudget: nan},
		"unused negative":    {PutsUnused: -1},
		"unused infinite":    {PutsUnused: inf},
		"savings huge":       {PutsBySavings: math.MaxUint64},
		"uptime huge":        {UptimeMs: proto.Uint64(math.MaxUint64)},
	} {
		t.Run(name, func(t *testing.T) {
			var table load.Table
			require.False(t, table.Heard(1, bad, start))
			require.Empty(t, table.Recent(start))
			require.True(t, table.Heard(1, rate(5), start))
			require.False(t, table.Heard(1, bad, start))
			require.Equal(t, rate(5), table.Recent(start)[1].Load, "the one before stays")
		})
	}
	var table load.Table
	require.True(t, table.Heard(1, &api.Load{Cpu: 1000, Network: 1, Buffers: 1.2, ProduceBytesPerSecond: 1 << 40}, start))
}

func TestTable_IsBounded(t *testing.T) {
	var table load.Table
	const bound = 10_000
	for s := range id.Session(bound) {
		require.True(t, table.Heard(s+1, rate(1), start))
	}
	require.False(t, table.Heard(bound+1, rate(1), start))
	require.True(t, table.Heard(bound, rate(2), start), "known ones are heard")
	table.Forget(7)
	require.True(t, table.Heard(bound+1, rate(1), start))
	require.Len(t, table.Recent(start), bound)
}

func TestTable_ConcurrentUse(t *testing.T) {
	var table load.Table
	var all sync.WaitGroup
	for s := range id.Session(8) {
		all.Go(func() {
			for i := range 100 {
				table.Heard(s, rate(float64(i)), start)
				table.Recent(start)
				if i%10 == 0 {
					table.Forget(s)
				}
			}
		})
	}
	all.Wait()
	require.Len(t, table.Recent(start), 8)
}
