package agent

import (
	"context"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/freshet-io/freshet/agent/load"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/objstore"
)

// buildLoad builds what measures how busy the agent is.
func (a *Agent) buildLoad(context.Context) (err error) {
	a.load, err = load.New(load.Config{
		Network: a.traffic, NetworkLimit: a.cfg.NetworkLimit, Produced: a.route.Bytes,
		TakesBatches: func() bool { return a.zone != nil && a.cfg.hasRole(RoleProduce) && !a.writer.Stuck() },
		Budgets: []load.Budget{
			{Name: "write buffers", Use: func() (held, bound int64) { return a.slabs.Held(), a.budgets.slabs }},
			{Name: "produce frames", Use: a.edge.ProduceMemory},
			{Name: "unsent answers", Use: a.fetcher.Unsent},
		},
		Registerer: a.cfg.Registry,
	})
	return err
}

// currentLoad returns the report to the owner.
func (a *Agent) currentLoad() *api.Load {
	l := proto.Clone(a.load.Load()).(*api.Load)
	l.ZoneWriter = uint32(a.route.Told())
	puts := a.writer.Savings()
	l.Connections, l.UptimeMs = proto.Uint32(uint32(a.edge.Connections())), proto.Uint64(uint64(time.Since(a.began).Milliseconds()))
	l.PutBudget, l.PutsUnused, l.PutsBySavings, l.PutsWanted = puts.Rate, puts.Unused, puts.Spent, uint32(min(puts.Wanted, math.MaxUint32))
	return l
}

// traffic is the bytes received and sent so far: from and to clients, other agents, and the object store.
func (a *Agent) traffic() (in, out int64) {
	in, out = a.edge.Traffic()
	if a.zone != nil {
		in += a.zone.ReceivedBytes() + a.taker.TakenBytes()
		out += a.peers.SentBytes() + a.route.HandedBytes()
	}
	counts := a.requests.Counts()
	return in + counts[objstore.OpGet].Bytes, out + counts[objstore.OpPut].Bytes + counts[objstore.OpPutPart].Bytes
}
