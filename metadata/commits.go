package metadata

import (
	"math"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// commitBundle gives the batches of a bundle their offsets, once (I3): a submission already settled gets the answer
// it got then.
func (s *machine) commitBundle(c *CommitBundle, fx *Effects) (*commit.Result, error) {
	r := &s.scratch.reader
	if err := r.Reset(c.Encoded); err != nil {
		return nil, err
	}
	h := r.Header()
	if err := admitsCommit(r); err != nil {
		return nil, err
	}
	sub := h.Submission
	e, _ := s.sessions.Get(sub.Session)
	known, settled := s.settled(sub, e)
	switch {
	case settled && (!h.Resubmit || known.Status == commit.SessionClosed):
		return known, nil
	case settled && e != nil && e.closed, settled && e == nil:
		return resultSessionClosed, nil // resubmission of a settled n: its session takes nothing any more (I9)
	case e == nil:
		return nil, ErrUnknownSession
	case !settled && (h.Resubmit || sub.N > e.nextN):
		return nil, ErrEarly
	}
	if h.Resubmit {
		// The bundle must be one that a commit of this session made known, and still have its object.
		if size, _, _, ok := s.Bundle(sub.Bundle()); !ok || size != h.Bytes || !s.revivable(sub.Bundle()) {
			return resultAbandoned, nil
		}
	}
	e = s.mutableSession(sub.Session, e)
	e.acknowledge(min(h.Acked, e.nextN-1))
	result := s.sequenceBundle(r, fx)
	if !h.Resubmit {
		e.settle(result)
	}
	fx.Committed = append(fx.Committed, result)
	return result, nil
}

// bundleCommit is one commit being applied.
type bundleCommit struct {
	*machine
	bundle    id.Bundle
	fx        *Effects
	extents   []extent.Extent // appended ones, in the order of sections
	liveBytes uint32
}

// sectionCommit is one section being applied.
type sectionCommit struct {
	topic     *topicEntry
	number    int32      // of the partition
	partition *partition // nil as long as it never had a record
	writable  bool       // partition may be changed
	exists    bool

	position uint32 // of the next batch in the object
	open     extent.Extent
	isOpen   bool
}

// sequenceBundle applies all sections of a commit.
func (s *machine) sequenceBundle(r *commit.Reader, fx *Effects) *commit.Result {
	sc := s.scratch
	sc.reset(r.Topics())
	h := r.Header()
	b := bundleCommit{
		machine: s, bundle: h.Submission.Bundle(), fx: fx,
		extents: make([]extent.Extent, 0, r.Sections()),
	}
	result := &commit.Result{Sections: make([]commit.SectionResult, r.Sections())}
	var section commit.SectionRuns
	for i := 0; r.NextSection(&section); i++ {
		from := len(sc.spans)
		result.Sections[i].LogStart = b.section(r, &section)
		sc.counts = append(sc.counts, len(sc.spans)-from)
	}
	spans := make([]commit.Span, len(sc.spans))
	copy(spans, sc.spans)
	for i, n := range sc.counts {
		result.Sections[i].Spans, spans = spans[:n:n], spans[n:]
	}
	s.addExtents(b.bundle, h.Bytes, 0, uint32(len(b.extents)), b.liveBytes)
	return result
}

// reset makes room for a commit.
func (sc *scratch) reset(topics int) {
	sc.spans, sc.counts = sc.spans[:0], sc.counts[:0]
	clear(sc.topics[:cap(sc.topics)])
	if cap(sc.topics) < topics {
		sc.topics, sc.known = make([]*topicEntry, topics), make([]bool, topics)
	}
	sc.topics, sc.known = sc.topics[:topics], sc.known[:topics]
	clear(sc.known)
}

// topic looks a topic of the commit's dictionary up, once per commit; nil if there is none.
func (b *bundleCommit) topic(r *commit.Reader, i int) *topicEntry {
	sc := b.scratch
	if !sc.known[i] {
		t := r.Topic(i)
		sc.topics[i], _ = b.liveTopic(topicKey(t))
		sc.known[i] = true
	}
	return sc.topics[i]
}

// section applies one section, appends its spans to the scratch, and gives the partition's log start.
func (b *bundleCommit) section(r *commit.Reader, in *commit.SectionRuns) (logStart int64) {
	c := sectionCommit{number: in.Partition.Partition, position: in.Position}
	if c.topic = b.topic(r, in.Topic); c.topic != nil {
		c.partition, c.exists = c.topic.partition(c.number)
	}
	before := len(b.extents)
	var run commit.Run
	for r.NextRun(&run) {
		b.run(&c, in, &run)
		c.position += uint32(run.Bytes)
	}
	b.closeExtent(&c)
	if c.partition == nil {
		return 0
	}
	if added := b.extents[before:len(b.extents):len(b.extents)]; len(added) > 0 {
		b.fx.Partitions = append(b.fx.Partitions, PartitionEffect{
			Partition: in.Partition, Watermarks: c.partition.watermarks(), Extents: added,
		})
	}
	return c.partition.logStart
}

// run decides on one run and gives it offsets if it is accepted.
func (b *bundleCommit) run(c *sectionCommit, in *commit.SectionRuns, run *commit.Run) {
	outcome, base := commit.Accepted, int64(-1)
	var known producer
	switch {
	case !c.exists:
		outcome = commit.NoPartition
	case c.partition != nil && c.partition.high > math.MaxInt64-1-run.Records:
		outcome = commit.OutOfOrder // the partition's offsets are used up
	case run.ProducerID < 0:
	case run.Transactional || c.partition != nil && c.partition.transactions != nil:
		if outcome = b.checkTransaction(in.Partition, c.partition, run); outcome != commit.Accepted {
			break
		}
		fallthrough
	default:
		outcome, base, known = c.topic.checkSequence(c.partition, run)
		if outcome == commit.Accepted && !b.mayRemember(c.partition, run.ProducerID) {
			outcome = commit.TooManyProducers
		}
	}
	if outcome != commit.Accepted {
		b.closeExtent(c)
		b.scratch.spans = append(b.scratch.spans, commit.Span{Batches: run.Batches, Outcome: outcome, Base: base})
		return
	}
	p := b.writable(c, in)
	base = p.high
	if run.ProducerID >= 0 {
		b.remember(c.topic, p, run, known, base)
		if run.Transactional {
			b.enterTransaction(c.topic, p, in.Partition, run, base)
		}
	}
	p.high += run.Records
	b.extend(c, run, base)
}

// writable gives the section's partition to be changed.
func (b *bundleCommit) writable(c *sectionCommit, in *commit.SectionRuns) *partition {
	if !c.writable {
		c.topic = b.mutableTopic(c.topic)
		b.scratch.topics[in.Topic] = c.topic
		c.partition = b.mutablePartition(c.topic, c.number, c.partition)
		c.writable = true
	}
	return c.partition
}

// extend adds an accepted run to the open extent, or opens one.
func (b *bundleCommit) extend(c *sectionCommit, run *commit.Run, base int64) {
	if c.isOpen {
		x := &c.open
		x.Last += run.Records
		x.MaxTimestamp = max(x.MaxTimestamp, run.MaxTimestamp)
		x.Length += uint32(run.Bytes)
		x.Batches += run.Batches
		b.scratch.spans[len(b.scratch.spans)-1].Batches += run.Batches
		return
	}
	c.isOpen = true
	c.open = extent.Extent{
		Base: base, Last: base + run.Records - 1, MaxTimestamp: run.MaxTimestamp, Bundle: b.bundle,
		Position: c.position, Length: uint32(run.Bytes), Batches: run.Batches, Kind: extent.Relative,
	}
	b.scratch.spans = append(b.scratch.spans, commit.Span{Batches: run.Batches, Outcome: commit.Accepted, Base: base})
}

// closeExtent appends the open extent to the partition: it ends at the section's end, and where a batch is not
// accepted.
func (b *bundleCommit) closeExtent(c *sectionCommit) {
	if !c.isOpen {
		return
	}
	c.isOpen = false
	c.partition.extents.Append(b.gen, c.open)
	b.extents = append(b.extents, c.open)
	b.liveBytes += c.open.Length
}
