package job

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// disconnected are runners without a stream.
type disconnected struct{ Runners }

func (disconnected) Connected(id.Session) bool { return false }

// Without half-dead bundles, or without a runner for them, a round visits the extents that it visited before. With both, one walk
// visits all of them, at most once a minute, and not again for the same bundles.
func TestReclaim_NoWorkNoWalk(t *testing.T) {
	const partitions, bundles = 100, 20
	for name, test := range map[string]struct {
		dead  uint32
		r     Runners
		walks bool
	}{
		"no dead bytes":           {dead: 0, r: everybody{}},
		"less than the minimum":   {dead: 16<<20 - 1<<10, r: everybody{}},
		"no runner is connected":  {dead: 17 << 20, r: disconnected{}},
		"half-dead, and a runner": {dead: 17 << 20, r: everybody{}, walks: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				state := benchState(t, partitions, [3]int{0, 0, bundles}, test.dead)
				core, logs := observer.New(zapcore.DebugLevel)
				p, err := New(Config{StoreTime: noTime, Log: zap.New(core)})
				require.NoError(t, err)
				tenure := p.Tenure(nil, test.r)
				visited := func() (all []int64) {
					for _, e := range logs.FilterMessage("looked for the extents of half-dead bundles").All() {
						all = append(all, e.ContextMap()["extents"].(int64))
					}
					return all
				}
				began := time.Now()
				for time.Since(began) < 9*time.Minute {
					tenure.plan(context.Background(), state)
					time.Sleep(10 * time.Second)
				}
				if !test.walks {
					require.Empty(t, visited())
					return
				}
				require.Equal(t, []int64{partitions * bundles}, visited())
			})
		})
	}
}

// However many bundles are half-dead, a round keeps roundBundles of them, and at most jobExtents extents.
func TestReclaim_MemoryOfARound(t *testing.T) {
	v := &survey{}
	for n := range 5 * roundBundles {
		v.addHalfDead(candidate{name: id.Bundle(n), dead: int64(n), bytes: 1, extents: 400})
		require.LessOrEqual(t, len(v.halfDead), 2*roundBundles)
	}
	v.cutHalfDead()
	require.Len(t, v.halfDead, roundBundles)
	require.EqualValues(t, 5*roundBundles-1, v.halfDead[0].name)
	groups := v.halfDeadGroups(1<<30, roundJobs)
	extents := 0
	for _, g := range groups {
		require.LessOrEqual(t, len(g.bundles), maxInputs)
		extents += g.extents
	}
	require.LessOrEqual(t, extents, jobExtents)
	require.Greater(t, extents, jobExtents-400)

	// At the bound, and above: a bundle with more extents than a plan holds is never taken.
	tenure := &Tenure{settings: Settings{DeadBytes: 1}}
	b := metadata.BundleInfo{Bytes: 1 << 31, LiveBytes: 1, LiveExtents: jobExtents}
	require.True(t, tenure.halfDead(&b))
	b.LiveExtents++
	require.False(t, tenure.halfDead(&b))
}
