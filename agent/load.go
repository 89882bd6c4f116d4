package agent

import (
	"context"
	"sync/atomic"

	"github.com/freshet-io/freshet/agent/kafka"
	"github.com/freshet-io/freshet/agent/load"
	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/objstore"
)

// buildLoad builds what measures how busy the agent is.
func (a *Agent) buildLoad(context.Context) (err error) {
	a.load, err = load.New(load.Config{
		Network: a.traffic, NetworkLimit: a.cfg.NetworkLimit, Produced: a.produced.Load,
		Budgets: []load.Budget{
			{Name: "write buffers", Use: func() (held, bound int64) { return a.slabs.Held(), a.budgets.slabs }},
			{Name: "produce frames", Use: a.edge.ProduceMemory},
			{Name: "unsent answers", Use: a.fetcher.Unsent},
		},
		Registerer: a.cfg.Registry,
	})
	return err
}

// currentLoad is what the owner is told.
func (a *Agent) currentLoad() *api.Load { return a.load.Load() }

// traffic is the bytes received and sent so far: from and to clients, other agents, and the object store.
func (a *Agent) traffic() (in, out int64) {
	in, out = a.edge.Traffic()
	if a.zone != nil {
		in += a.zone.ReceivedBytes()
		out += a.peers.SentBytes()
	}
	counts := a.requests.Counts()
	return in + counts[objstore.OpGet].Bytes, out + counts[objstore.OpPut].Bytes + counts[objstore.OpPutPart].Bytes
}

// counting counts the bytes of the batches that clients send, on their way to a writer.
func (a *Agent) counting(to kafka.BatchWriter) kafka.BatchWriter {
	return countingWriter{to, &a.produced}
}

type countingWriter struct {
	kafka.BatchWriter
	bytes *atomic.Int64
}

// Add implements kafka.BatchWriter.
func (w countingWriter) Add(ctx context.Context, batches []writer.Batch) *writer.Produce {
	n := 0
	for i := range batches {
		n += len(batches[i].Bytes)
	}
	w.bytes.Add(int64(n))
	return w.BatchWriter.Add(ctx, batches)
}
