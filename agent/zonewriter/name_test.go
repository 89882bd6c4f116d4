package zonewriter

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/metadata/id"
)

// An agent is named as it was known when its stream began: it may be no member any more when that ends.
func TestLog_NamesAgentsByTheirAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		core, logged := observer.New(zap.InfoLevel)
		names := map[id.Session]string{other: "other:9092", me: "me:9092"}
		address := func(s id.Session) string { return names[s] }
		w.route.log, w.route.cfg.Address = zap.New(core), address
		w.taker.log, w.taker.cfg.Address = zap.New(core), address
		w.tell(other)
		clear(names)
		require.NoError(t, w.conns[0].Close())
		synctest.Wait()
		for message, want := range map[string]map[string]any{
			"another agent of the zone hands its batches over":              {"session": uint32(me), "agent": "me:9092"},
			"stream to the zone's writer is lost; this agent writes itself": {"session": uint32(other), "agent": "other:9092"},
			"another agent of the zone hands nothing over any more":         {"session": uint32(me), "agent": "me:9092"},
		} {
			lines := logged.FilterMessage(message).All()
			require.NotEmpty(t, lines, message)
			fields := lines[0].ContextMap()
			delete(fields, "error")
			delete(fields, "reason")
			require.Equal(t, want, fields, message)
		}
		gone := nameOf(other, address)
		core2, bare := observer.New(zap.InfoLevel)
		zap.New(core2).Info("x", gone)
		require.Equal(t, map[string]any{"session": uint32(other)}, bare.All()[0].ContextMap())
	})
}

// A writer that cannot be reached is tried often, and told of now and then.
func TestLog_TellsNowAndThenOfAWriterThatIsNotReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		core, logged := observer.New(zap.InfoLevel)
		w.route.log = zap.New(core)
		w.unreached = true
		w.tell(other)
		<-time.After(25 * time.Second)
		synctest.Wait()
		w.mu.Lock()
		require.Greater(t, w.dials, 8)
		w.mu.Unlock()
		lines := logged.FilterMessage("the zone's writer cannot be reached; this agent writes itself").All()
		require.GreaterOrEqual(t, len(lines), 2)
		require.LessOrEqual(t, len(lines), 3)
	})
}
