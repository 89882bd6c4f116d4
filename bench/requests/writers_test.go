package requests

import (
	"bufio"
	"context"
	"net"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/zonewriter"
	"github.com/freshet-io/freshet/controlplane/api"
	planner "github.com/freshet-io/freshet/controlplane/zonewriter"
	"github.com/freshet-io/freshet/metadata/id"
)

// planWriters has the planner name the writers of each zone, until stop.
func (w *world) planWriters() (stop func()) {
	w.writers = planner.New(planner.Config{
		Rates: planner.Rates{Fill: float64(w.load.bundle) / flushInterval.Seconds()},
	}).Tenure(&w.loads, w)
	_, err := w.owner.Read(w.writers.Members)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.t.Context())
	wait := w.writers.Start(ctx)
	return func() {
		cancel()
		wait()
	}
}

// flushInterval is the default that writers have, by which the planner tells who fills whole bundles alone.
const flushInterval = 250 * time.Millisecond

// TellZoneWriter implements zonewriter.Agents.
func (w *world) TellZoneWriter(to, writer id.Session, share float64, _ uint64) bool {
	w.of(to).route.OnZoneWriter(&api.ZoneWriter{Session: uint32(writer), PutShare: share})
	return true
}

// buildRoute builds what takes batches to the zone's writer.
func (a *agent) buildRoute() {
	cfg := zonewriter.Config{
		Own: a.writer, Session: func() id.Session { return a.session }, Agents: func() int { return a.w.load.agents / a.w.load.zones },
		Registerer: a.registry,
	}
	if a.asks != nil {
		cfg.Dial = func(ctx context.Context, to id.Session) (net.Conn, *bufio.Reader, error) {
			return a.asks.Stream(ctx, to, zonewriter.Protocol)
		}
		a.taker = zonewriter.NewTaker(zonewriter.TakerConfig{Own: a.writer, Registerer: a.registry})
	}
	a.route = zonewriter.New(cfg)
}

// report tells the planner of zone writers what this agent's clients send, as package load does.
func (a *agent) report(ctx context.Context) {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	rate, before := float64(a.w.load.rate)/float64(a.w.load.agents), a.route.Bytes()
	for {
		load := &api.Load{ProduceBytesPerSecond: rate, TakesBatches: true}
		a.w.loads.Heard(a.session, load, time.Now())
		a.w.writers.Heard(a.session, load)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		bytes := a.route.Bytes()
		rate, before = float64(bytes-before)/reportEvery.Seconds(), bytes
	}
}

const reportEvery = time.Second
