package view

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
)

// Partitions are the windows of the partitions that are being read. A window opens with a subscribing look-up, goes
// on from that look-up's log index with the owner's notices, which come in log order, and is stale when the stream
// breaks: the next reader opens it again, and only while that fails does it serve what it has. Partitions implements the
// notice half of client.Handler.
type Partitions struct {
	cfg     Config
	metrics *metrics

	// generation counts the streams: an answer that was asked for in another one opens no window.
	generation atomic.Uint64
	connected  atomic.Bool  // there is a stream
	began      time.Time    // what heard and parkedLast count from
	heard      atomic.Int64 // when the newest notice came, ns
	confirmed  atomic.Pointer[time.Time]
	extents    atomic.Int64 // held for all partitions
	parked     atomic.Int64
	parkedLast atomic.Int64  // when the newest fetch was parked, ns
	park       chan struct{} // capacity 1: a fetch was parked

	mu struct {
		sync.RWMutex
		parts map[id.TopicPartition]*partition
	}
}

// NewPartitions checks the configuration. Run must run for parked fetches to be answered cheaply and for idle
// partitions to be dropped.
func NewPartitions(cfg Config) (*Partitions, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("partition views: %w", err)
	}
	p := &Partitions{cfg: cfg, metrics: newMetrics(cfg.Registerer), park: make(chan struct{}, 1), began: time.Now()}
	p.mu.parts = make(map[id.TopicPartition]*partition)
	p.connected.Store(true) // until told otherwise: there is nothing to fall back on anyway
	return p, nil
}

// partition finds or adds one; bounded says that there is no room for it.
func (p *Partitions) partition(tp id.TopicPartition) (part *partition, bounded bool) {
	if part := p.find(tp); part != nil {
		return part, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if part := p.mu.parts[tp]; part != nil {
		return part, false
	}
	if len(p.mu.parts) >= p.cfg.Subscriptions {
		p.metrics.refused.Inc()
		return nil, true
	}
	part = &partition{tp: tp, total: &p.extents}
	p.mu.parts[tp] = part
	p.metrics.subscriptions.Set(float64(len(p.mu.parts)))
	return part, false
}

func (p *Partitions) find(tp id.TopicPartition) *partition {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.mu.parts[tp]
}

func (p *Partitions) all() []*partition {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.Collect(maps.Values(p.mu.parts))
}

// OnNotice applies what commits changed. Part of client.Handler: called in stream order, on one goroutine.
func (p *Partitions) OnNotice(m *api.Notice) {
	p.heard.Store(int64(time.Since(p.began)))
	for _, n := range m.GetPartitions() {
		tp := id.TopicPartition{Partition: n.GetPartition()}
		copy(tp.Topic[:], n.GetTopic())
		p.metrics.notices.Inc()
		if part := p.find(tp); part != nil {
			p.deliver(part, m.GetIndex(), n)
		}
	}
}

func (p *Partitions) deliver(part *partition, index uint64, n *api.PartitionNotice) {
	part.mu.Lock()
	defer part.mu.Unlock()
	switch part.mu.state {
	case filling:
		if len(part.mu.pending) < maxPending {
			part.mu.pending = append(part.mu.pending, n)
			part.mu.indexes = append(part.mu.indexes, index)
		}
	case live:
		p.apply(part, index, n)
	case absent, leaving, gone:
	}
}

// confirmedAt is the time before which everything committed is in every live window. Load it before reading marks.
func (p *Partitions) confirmedAt() time.Time {
	if at := p.confirmed.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Confirm asks the owner how far it is: plans made after it returned are fresh for requests that arrived before it
// was called (I4). The error says that the owner could not be asked.
func (p *Partitions) Confirm(ctx context.Context) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, p.cfg.ProbeTimeout)
	defer cancel()
	if _, err := p.cfg.Source.Fresh(ctx); err != nil {
		return fmt.Errorf("confirm partition views: %w", err)
	}
	for {
		old := p.confirmed.Load()
		if old != nil && !began.After(*old) || p.confirmed.CompareAndSwap(old, &began) {
			return nil
		}
	}
}
