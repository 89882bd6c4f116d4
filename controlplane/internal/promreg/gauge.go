package promreg

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Gauge registers a gauge without labels, or returns the one that was registered before. All gauges of a name in the process share their
// description, which takes most of the memory of those of prometheus.NewGauge. A control plane has thousands of virtual clusters.
func Gauge(reg prometheus.Registerer, name, help string) prometheus.Gauge {
	desc, ok := descs.Load(described{name, help})
	if !ok {
		desc, _ = descs.LoadOrStore(described{name, help}, prometheus.NewDesc(name, help, nil, nil))
	}
	return Register[prometheus.Gauge](reg, &gauge{desc: desc.(*prometheus.Desc)}) //nolint:forcetypeassert // of descs
}

// descs are the descriptions of gauges, each a *prometheus.Desc by described. There are as many as calls of Gauge in the source.
var descs sync.Map

type described struct{ name, help string }

// gauge implements prometheus.Gauge.
type gauge struct {
	desc *prometheus.Desc
	bits atomic.Uint64 // of the value, a float64
}

func (g *gauge) Desc() *prometheus.Desc { return g.desc }

func (g *gauge) Describe(all chan<- *prometheus.Desc) { all <- g.desc }

func (g *gauge) Collect(all chan<- prometheus.Metric) { all <- g }

func (g *gauge) Write(m *dto.Metric) error {
	value := math.Float64frombits(g.bits.Load())
	m.Gauge = &dto.Gauge{Value: &value}
	return nil
}

func (g *gauge) Set(value float64) { g.bits.Store(math.Float64bits(value)) }

func (g *gauge) SetToCurrentTime() { g.Set(float64(time.Now().UnixNano()) / 1e9) }

func (g *gauge) Add(value float64) {
	for {
		before := g.bits.Load()
		if g.bits.CompareAndSwap(before, math.Float64bits(math.Float64frombits(before)+value)) {
			return
		}
	}
}

func (g *gauge) Sub(value float64) { g.Add(-value) }

func (g *gauge) Inc() { g.Add(1) }

func (g *gauge) Dec() { g.Add(-1) }
