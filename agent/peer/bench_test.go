package peer

import (
	"context"
	"testing"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/metadata/id"
)

// benchUnit is what is sent: a bundle of that size, as writers make them at the most.
const benchUnit = 8 << 20

// drop takes units in without keeping them.
type drop struct{ scratch []byte }

func (d *drop) take(_ int, in cache.Incoming) error {
	for {
		_, length, err := in.Next()
		if err != nil {
			return nil //nolint:nilerr // the end, which the size is checked for
		}
		for length > 0 {
			n, err := in.Read(d.scratch[:min(int(length), len(d.scratch))])
			if err != nil {
				return err
			}
			length -= uint32(n)
		}
	}
}

// BenchmarkZone_Fetch8MiB serves a unit and takes it in, over a loopback connection: both sides' cost together.
func BenchmarkZone_Fetch8MiB(b *testing.B) {
	for name, fill := range map[string]func(*cluster, *agent, id.Bundle){
		"read": func(c *cluster, _ *agent, n id.Bundle) { c.bundle(n, 80, benchUnit/80) },
		"own": func(_ *cluster, a *agent, n id.Bundle) {
			made, o := cachetest.NewBundle(n), &own{}
			for i := range 80 {
				o.add(made.Add(cachetest.Batch(make([]byte, benchUnit/80), int64(i))), int64(i))
			}
			a.cache.Put(n, o)
		},
	} {
		b.Run(name, func(b *testing.B) {
			c := newCluster(b, 2)
			writer, reader := c.agents[0], c.agents[1]
			bundle := c.owned(writer, reader, written(writer.session, 1))
			fill(c, writer, bundle)
			a := cache.Ask{Bundle: bundle, Units: []cache.Unit{{}}}
			sink := &drop{scratch: make([]byte, 256<<10)}
			b.SetBytes(benchUnit)
			b.ReportAllocs()
			for b.Loop() {
				reader.asks.Fetch(context.Background(), a, sink.take, func([]int) { b.Error("not given") })
			}
		})
	}
}

// BenchmarkZone_Plan finds out whom to ask for a unit, in a zone of 50 agents.
func BenchmarkZone_Plan(b *testing.B) {
	c := newCluster(b, 1)
	z := c.agents[0].asks
	for session := range id.Session(49) {
		c.agents = append(c.agents, &agent{session: 100 + session, zone: testZone, address: "127.0.0.1:1"})
	}
	c.tell()
	c.agents = c.agents[:1]
	a := cache.Ask{Bundle: written(900, 1), Units: []cache.Unit{{}}}
	b.ReportAllocs()
	for b.Loop() {
		d := z.current()
		z.writer(d, &a)
		z.owner(d, a.Bundle, a.Units[0])
		a.Bundle++
	}
}
