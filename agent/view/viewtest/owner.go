// Package viewtest is a control plane in memory for tests of readers: partitions with extents, one log index, and
// session streams that deliver in log order and can be held up or broken.
package viewtest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// ErrUnavailable is what waiting calls get when their context ends.
var ErrUnavailable = errors.New("owner unavailable")

// Handler is told what the stream brings, as client.Handler.
type Handler interface {
	OnCatalogue(*api.Catalogue)
	OnNotice(*api.Notice)
	OnConnect()
	OnDisconnect()
}

// Partition is one partition's truth.
type Partition struct {
	LogStart, HighWatermark, LastStable int64
	Extents                             []extent.Extent
	Aborted                             []extent.Aborted // in the order of markers
}

// Owner holds the truth and its streams.
type Owner struct {
	mu       sync.Mutex
	index    uint64
	parts    map[id.TopicPartition]*Partition
	topics   []*api.Topic
	sessions []*Session
	Lookups  int // look-ups answered
	Probes   int // stamps given
}

// NewOwner makes an empty owner at index 1.
func NewOwner() *Owner {
	return &Owner{index: 1, parts: make(map[id.TopicPartition]*Partition)}
}

// Count runs fn with the owner locked, to read its counters.
func (o *Owner) Count(fn func(*Owner)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fn(o)
}

// CreateTopic adds a topic and tells the streams.
func (o *Owner) CreateTopic(topic id.Topic, name string, partitions int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.index++
	t := &api.Topic{Id: topic[:], Name: name, Partitions: partitions}
	o.topics = append(o.topics, t)
	for p := range partitions {
		o.parts[id.TopicPartition{Topic: topic, Partition: p}] = &Partition{}
	}
	o.tell(&api.Catalogue{Index: o.index, Topics: []*api.Topic{t}})
}

// DeleteTopic removes a topic and tells the streams.
func (o *Owner) DeleteTopic(topic id.Topic) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.index++
	o.topics = slices.DeleteFunc(o.topics, func(t *api.Topic) bool { return id.Topic(t.GetId()) == topic })
	for tp := range o.parts {
		if tp.Topic == topic {
			delete(o.parts, tp)
		}
	}
	o.tell(&api.Catalogue{Index: o.index, DeletedTopics: [][]byte{topic[:]}})
}

func (o *Owner) tell(m *api.Catalogue) {
	for _, s := range o.sessions {
		s.push(func() { s.handler.OnCatalogue(m) })
	}
}

// Commit appends extents, whose Base and Last it sets from the high watermark and their Last (taken as the number of
// records), and gives them as they are.
func (o *Owner) Commit(tp id.TopicPartition, exts ...extent.Extent) []extent.Extent {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.parts[tp]
	for i := range exts {
		records := exts[i].Last
		exts[i].Base, exts[i].Last = p.HighWatermark, p.HighWatermark+records-1
		p.HighWatermark += records
	}
	p.LastStable = p.HighWatermark
	p.Extents = append(p.Extents, exts...)
	o.index++
	o.notify(tp, exts)
	return exts
}

// Append appends extents that have their offsets already, as the state machine gave them.
func (o *Owner) Append(tp id.TopicPartition, exts ...extent.Extent) {
	if len(exts) == 0 {
		return
	}
	o.Write(tp, exts[len(exts)-1].Last+1, nil, exts...)
}

// Write appends extents that have their offsets already, and sets the last stable offset to what it is then. aborted
// are the transactions that markers among the extents abort.
func (o *Owner) Write(tp id.TopicPartition, lastStable int64, aborted []extent.Aborted, exts ...extent.Extent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.parts[tp]
	p.Extents, p.Aborted = append(p.Extents, exts...), append(p.Aborted, aborted...)
	if len(exts) > 0 {
		p.HighWatermark = exts[len(exts)-1].Last + 1
	}
	p.LastStable = lastStable
	o.index++
	o.notify(tp, exts, aborted...)
}

func abortedMessages(in []extent.Aborted) (out []*api.AbortedTransaction) {
	for _, a := range in {
		out = append(out, &api.AbortedTransaction{ProducerId: a.ProducerID, First: a.First, Last: a.Last})
	}
	return out
}

// Change sets a partition's truth by fn and tells the streams without extents.
func (o *Owner) Change(tp id.TopicPartition, fn func(*Partition)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fn(o.parts[tp])
	o.index++
	o.notify(tp, nil)
}

func (o *Owner) notify(tp id.TopicPartition, exts []extent.Extent, aborted ...extent.Aborted) {
	p := o.parts[tp]
	n := &api.Notice{Index: o.index, Partitions: []*api.PartitionNotice{{
		Topic: tp.Topic[:], Partition: tp.Partition, LogStart: p.LogStart, HighWatermark: p.HighWatermark,
		LastStable: p.LastStable, Extents: extent.AppendList(nil, exts), Aborted: abortedMessages(aborted),
	}}}
	for _, s := range o.sessions {
		if s.subscribed[tp] {
			s.push(func() { s.handler.OnNotice(n) })
		}
	}
}

func (o *Owner) answer(q *api.PartitionLookup) *api.PartitionAnswer {
	p := o.parts[id.TopicPartition{Topic: id.Topic(q.GetTopic()), Partition: q.GetPartition()}]
	if p == nil {
		return &api.PartitionAnswer{Unknown: true}
	}
	a := &api.PartitionAnswer{LogStart: p.LogStart, HighWatermark: p.HighWatermark, LastStable: p.LastStable}
	var exts []extent.Extent
	if w, ok := q.GetWant().(*api.PartitionLookup_Timestamp); ok {
		exts = p.byTime(q, w.Timestamp)
	} else {
		exts, a.More = p.from(q)
	}
	a.Extents = extent.AppendList(nil, exts)
	for _, t := range p.Aborted {
		if len(exts) > 0 && t.Last >= exts[0].Base && t.First <= exts[len(exts)-1].Last {
			a.Aborted = append(a.Aborted, abortedMessages([]extent.Aborted{t})...)
		}
	}
	return a
}

func (p *Partition) byTime(q *api.PartitionLookup, ts int64) []extent.Extent {
	best := -1
	for i, e := range p.Extents {
		switch {
		case e.Last < max(p.LogStart, q.GetFrom()), ts == -3 && q.GetTo() > 0 && e.Base >= q.GetTo():
		case ts == -3 && (best < 0 || e.MaxTimestamp > p.Extents[best].MaxTimestamp):
			best = i
		case ts >= 0 && e.MaxTimestamp >= ts:
			return p.Extents[i : i+1]
		}
	}
	if best < 0 {
		return nil
	}
	return p.Extents[best : best+1]
}

func (p *Partition) from(q *api.PartitionLookup) (exts []extent.Extent, more bool) {
	bytes := uint64(0)
	for _, e := range p.Extents {
		if e.Last < max(q.GetExtentsFrom(), p.LogStart) {
			continue
		}
		if len(exts) > 0 && (len(exts) >= int(q.GetMaxExtents()) || bytes+uint64(e.Length) > q.GetMaxBytes()) {
			return exts, true
		}
		exts, bytes = append(exts, e), bytes+uint64(e.Length)
	}
	return exts, false
}

// Session is one agent's stream. It implements view.Source.
type Session struct {
	owner      *Owner
	handler    Handler
	subscribed map[id.TopicPartition]bool // guarded by the owner's lock

	mu    sync.Mutex
	queue []func()
	held  bool
	kick  chan struct{}
	down  chan struct{} // not nil while the stream is cut; closed when it is there again
}

// Open begins a stream; Run delivers what it brings, beginning with a full catalogue.
func (o *Owner) Open(h Handler) *Session {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := &Session{owner: o, handler: h, subscribed: make(map[id.TopicPartition]bool), kick: make(chan struct{}, 1)}
	o.sessions = append(o.sessions, s)
	m := &api.Catalogue{Index: o.index, Full: true, Topics: slices.Clone(o.topics)}
	s.push(func() { h.OnCatalogue(m) })
	return s
}

func (s *Session) push(f func()) {
	s.mu.Lock()
	s.queue = append(s.queue, f)
	s.mu.Unlock()
	s.poke()
}

func (s *Session) poke() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Run delivers in order until ctx ends.
func (s *Session) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.kick:
		}
		for f := s.next(); f != nil; f = s.next() {
			f()
		}
	}
}

func (s *Session) next() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held || len(s.queue) == 0 {
		return nil
	}
	f := s.queue[0]
	s.queue = s.queue[1:]
	return f
}

// Hold keeps back what the stream brings, as a black hole on the way would.
func (s *Session) Hold() { s.hold(true) }

// Resume delivers what was held back.
func (s *Session) Resume() { s.hold(false) }

func (s *Session) hold(held bool) {
	s.mu.Lock()
	s.held = held
	s.mu.Unlock()
	s.poke()
}

// Break ends the stream and begins another: what was on its way is lost, subscriptions too.
func (s *Session) Break() {
	s.Cut()
	s.Mend()
}

// Cut ends the stream: what was on its way is lost, subscriptions too. Calls wait for Mend.
func (s *Session) Cut() {
	s.owner.mu.Lock()
	defer s.owner.mu.Unlock()
	clear(s.subscribed)
	s.mu.Lock()
	s.queue, s.down = nil, make(chan struct{})
	s.mu.Unlock()
	s.push(s.handler.OnDisconnect)
}

// Mend begins another stream after Cut.
func (s *Session) Mend() {
	s.owner.mu.Lock()
	defer s.owner.mu.Unlock()
	m := &api.Catalogue{Index: s.owner.index, Full: true, Topics: slices.Clone(s.owner.topics)}
	s.push(func() {
		s.handler.OnConnect()
		s.handler.OnCatalogue(m)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.down)
	s.down = nil
}

// connected waits for a stream.
func (s *Session) connected(ctx context.Context) error {
	s.mu.Lock()
	down := s.down
	s.mu.Unlock()
	if down == nil {
		return nil
	}
	select {
	case <-down:
		return nil
	case <-ctx.Done():
		return ErrUnavailable
	}
}

// Fresh implements view.Source.
func (s *Session) Fresh(ctx context.Context) (uint64, error) {
	if err := s.connected(ctx); err != nil {
		return 0, err
	}
	ch := make(chan uint64, 1)
	s.owner.mu.Lock()
	s.owner.Probes++
	index := s.owner.index
	s.push(func() { ch <- index })
	s.owner.mu.Unlock()
	select {
	case index := <-ch:
		return index, nil
	case <-ctx.Done():
		return 0, ErrUnavailable
	}
}

// Lookup implements view.Source.
func (s *Session) Lookup(ctx context.Context, qs []*api.PartitionLookup) (*api.LookupAnswer, error) {
	if err := s.connected(ctx); err != nil {
		return nil, err
	}
	ch := make(chan *api.LookupAnswer, 1)
	s.owner.mu.Lock()
	s.owner.Lookups++
	a := &api.LookupAnswer{Index: s.owner.index}
	for _, q := range qs {
		pa := s.owner.answer(q)
		a.Partitions = append(a.Partitions, pa)
		if q.GetSubscribe() && !pa.GetUnknown() {
			s.subscribed[id.TopicPartition{Topic: id.Topic(q.GetTopic()), Partition: q.GetPartition()}] = true
		}
	}
	s.push(func() { ch <- a })
	s.owner.mu.Unlock()
	select {
	case a := <-ch:
		return a, nil
	case <-ctx.Done():
		return nil, ErrUnavailable
	}
}

// Unsubscribe implements view.Source.
func (s *Session) Unsubscribe(tps []id.TopicPartition) {
	s.owner.mu.Lock()
	defer s.owner.mu.Unlock()
	for _, tp := range tps {
		delete(s.subscribed, tp)
	}
}

// Subscribed is the number of partitions whose notices the stream carries.
func (s *Session) Subscribed() int {
	s.owner.mu.Lock()
	defer s.owner.mu.Unlock()
	return len(s.subscribed)
}

// Replace changes a partition's extents without telling anyone, as compaction does.
func (o *Owner) Replace(tp id.TopicPartition, exts ...extent.Extent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.index++
	o.parts[tp].Extents = exts
}

// Direct is a source without a stream: calls are answered at once, notices go nowhere.
func (o *Owner) Direct() Direct { return Direct{o} }

// Direct implements view.Source.
type Direct struct{ owner *Owner }

// Fresh implements view.Source.
func (d Direct) Fresh(context.Context) (uint64, error) {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	return d.owner.index, nil
}

// Lookup implements view.Source.
func (d Direct) Lookup(_ context.Context, qs []*api.PartitionLookup) (*api.LookupAnswer, error) {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	a := &api.LookupAnswer{Index: d.owner.index}
	for _, q := range qs {
		a.Partitions = append(a.Partitions, d.owner.answer(q))
	}
	return a, nil
}

// Unsubscribe implements view.Source.
func (Direct) Unsubscribe([]id.TopicPartition) {}
