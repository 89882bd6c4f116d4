package kafka

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/agent/edge"
)

// connection is a client that has up to limit requests in flight, each answered after 250 ms, together.
func connection(limit int, multiple bool, think time.Duration, rounds int) (heldRequests int) {
	var p edge.Pace
	for range rounds {
		for range limit {
			if held(&p, time.Now(), multiple) {
				heldRequests++
			}
			p.InFlight.Add(1)
		}
		time.Sleep(250 * time.Millisecond)
		for range limit {
			p.InFlight.Add(-1)
			p.Answered.Store(time.Now().UnixNano())
		}
		time.Sleep(think)
	}
	return heldRequests
}

func TestWindows_Held(t *testing.T) {
	for name, c := range map[string]struct {
		limit    int
		multiple bool
		think    time.Duration
		held     int
	}{
		"five in flight":                   {5, true, 0, 45},
		"one large batch in flight":        {1, true, time.Millisecond, 9},
		"five single records in flight":    {5, false, time.Millisecond, 45},
		"one record after the other":       {1, false, 0, 0},
		"nothing to send after the answer": {5, true, 100 * time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				require.Equal(t, c.held, connection(c.limit, c.multiple, c.think, 10), "the first window waits for no answer")
			})
		})
	}
}

// TestWindows_OpenLoop: a client that sends at a steady rate, whatever is answered, is not limited.
func TestWindows_OpenLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p edge.Pace
		for i := range 1000 {
			require.False(t, held(&p, time.Now(), true), i)
			p.InFlight.Add(1)
			if i%50 == 49 {
				p.InFlight.Store(0)
				p.Answered.Store(time.Now().UnixNano())
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

func TestWindows_LogsAndAdvisesHourly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		w := newWindows(zap.New(core), prometheus.NewRegistry())
		for range 3700 { // seconds
			for range 4 {
				w.add("billing", 5*16000, 5, time.Now())
				time.Sleep(250 * time.Millisecond)
			}
		}
		require.Equal(t, 2, logs.Len(), "after 10 s and an hour later")
		line := logs.All()[1].ContextMap()
		require.Equal(t, "billing", line["client_id"])
		require.InDelta(t, 4*5*16000.0/(1<<20), line["mib_per_second"], 0.01)
		require.EqualValues(t, 16000, line["batch_bytes"])
		require.EqualValues(t, 128<<10, line["advised_batch_size"])
		require.InDelta(t, 4*5*float64(128<<10)/(1<<20), line["mib_per_second_then"], 0.05)
		require.EqualValues(t, 3700*4*5*16000, testutil.ToFloat64(w.bytes.WithLabelValues("billing")))

		for range 3700 {
			w.add("large", 400<<10, 1, time.Now())
			time.Sleep(time.Second)
		}
		require.Equal(t, 2, logs.Len(), "a larger batch.size would not help")
	})
}

func TestWindows_BoundOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindows(zap.NewNop(), prometheus.NewRegistry())
		for i := range 2 * maxWindowClients {
			w.add(fmt.Sprint("client-", i), 100, 1, time.Now())
		}
		require.Equal(t, maxWindowClients+1, testutil.CollectAndCount(w.bytes))
		require.EqualValues(t, 100*maxWindowClients, testutil.ToFloat64(w.bytes.WithLabelValues(otherClients)))
		time.Sleep(windowPeriod)
		w.add(strings.Repeat("\xff", 1<<15), 100, 1, time.Now())
		require.Len(t, w.mu.clients, 1, "clients of an hour ago are forgotten")
		require.Equal(t, 2, testutil.CollectAndCount(w.bytes))
	})
}
