package metadata

import "github.com/freshet-io/freshet/metadata/commit"

const (
	// MaxProducers is the default bound (LimitProducers) of the active producers of a state, counted once per partition that they wrote to within
	// ProducerIDExpirationMs. Beyond it a producer that is new to a partition is refused (commit.TooManyProducers).
	// Kafka has no such bound: it remembers every producer for producer.id.expiration.ms.
	MaxProducers = 4 << 20
	// MaxResting bounds the producers at rest in a state by default, of which a partition has at most maxResting.
	MaxResting = MaxProducers / restingShare
	// ProducerBytes and RestingBytes are about what a producer takes in memory while it is active and at rest, with its
	// share of the tables and of the order of last use. TestProducers_History measures them.
	ProducerBytes = 200
	RestingBytes  = 100
)

// producerBounds are the bounds of a state.
type producerBounds struct{ active, resting int64 }

// producerCount counts the producers that a partition, a topic or the whole state remembers.
type producerCount struct {
	active, resting int
	transactional   int // partitions with an open or aborted transaction
	aborted         int // aborted transactions
}

func (p *partition) producerCount() producerCount {
	n := producerCount{active: p.producers.Len()}
	if p.resting != nil {
		n.resting = p.resting.Len()
	}
	if p.transactions != nil {
		n.transactional, n.aborted = 1, p.transactions.aborted.Len()
	}
	return n
}

// counting updates the counts of a topic that may be changed, and of the state, after change has changed one of its
// partitions.
func (s *machine) counting(e *topicEntry, p *partition, change func()) {
	before := p.producerCount()
	change()
	after := p.producerCount()
	e.counts.add(after, 1)
	e.counts.add(before, -1)
	s.counts.add(after, 1)
	s.counts.add(before, -1)
}

func (c *producerCount) add(o producerCount, times int) {
	c.active += times * o.active
	c.resting += times * o.resting
	c.transactional += times * o.transactional
	c.aborted += times * o.aborted
}

// countProducers counts anew, after a snapshot was read.
func (s *machine) countProducers() {
	s.counts = producerCount{}
	s.topics.Scan(func(_ string, e *topicEntry) bool {
		e.counts = producerCount{}
		e.partitions.Scan(func(_ int32, p *partition) bool {
			e.counts.add(p.producerCount(), 1)
			return true
		})
		s.counts.add(e.counts, 1)
		return true
	})
}

// mayRemember reports whether there is room for the producer of an accepted batch in a partition, which is nil if it
// never had a record. Producers that are active there have their room.
func (s *machine) mayRemember(p *partition, producerID int64) bool {
	if int64(s.counts.active) < s.bounds.active {
		return true
	}
	if p == nil {
		return false
	}
	_, active := p.producers.Get(producerID)
	return active
}

// remember stores the state of a producer after an accepted batch. The topic and the partition may be changed.
func (s *machine) remember(e *topicEntry, p *partition, b *commit.Run, known producer, base int64) {
	s.counting(e, p, func() {
		p.deleteResting(b.ProducerID)
		known.add(b, base, s.now)
		p.setProducer(b.ProducerID, known)
	})
}

// rest ends a producer's active time: only where it goes on is kept. Where too many rest, the one at rest for longest is
// forgotten. From then on it is taken at any sequence, as by Kafka.
func (s *machine) rest(p *partition, producerID int64) {
	q := p.deleteProducer(producerID)
	n, full := p.producerCount().resting, int64(s.counts.resting) >= s.bounds.resting
	switch {
	case n > 0 && (n >= maxResting || full):
		longest := p.longestResting()
		p.deleteResting(longest)
		p.forget(longest)
	case full:
		p.forget(producerID)
		return
	}
	p.setResting(producerID, resting{next: q.next, epoch: q.epoch, flags: q.flags, seen: q.seen})
}
