package metadata

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// committedBatch is what the sequence model remembers, for ever and unwrapped.
type committedBatch struct{ start, records, offset int64 }

// producerModel decides on batches from everything that was ever committed in the epoch.
type producerModel struct {
	epoch   int16
	next    int64 // unwrapped
	batches []committedBatch
}

func (m *producerModel) decide(b *commit.Batch, high int64) (commit.Outcome, int64) {
	switch {
	case m.batches == nil && b.BaseSequence != 0, b.ProducerEpoch > m.epoch && b.BaseSequence != 0:
		return commit.Gap, -1
	case m.batches == nil, b.ProducerEpoch > m.epoch:
		*m = producerModel{epoch: b.ProducerEpoch}
	case b.ProducerEpoch < m.epoch:
		return commit.Fenced, -1
	default:
		behind := (m.next - int64(b.BaseSequence)) & math.MaxInt32
		if behind > sequenceHalf {
			return commit.Gap, -1
		}
		if behind > 0 {
			return m.repeated(m.next-behind, int64(b.Records))
		}
	}
	m.batches = append(m.batches, committedBatch{m.next, int64(b.Records), high})
	m.next += int64(b.Records)
	return commit.Accepted, high
}

func (m *producerModel) repeated(start, records int64) (commit.Outcome, int64) {
	newest := len(m.batches) - 1
	for i := newest; i >= 0 && i > newest-window; i-- {
		if i < newest && m.batches[i+1].offset-m.batches[i].offset > math.MaxUint32 {
			break // too far apart to be remembered
		}
		if m.batches[i].start == start && m.batches[i].records == records {
			return commit.Duplicate, m.batches[i].offset
		}
	}
	if start >= 0 && start+records <= m.next {
		return commit.Duplicate, -1
	}
	return commit.OutOfOrder, -1
}

// TestProducers_AgainstModel throws new, repeated, skipped, split and wrapping batches of a few producers at a
// partition and compares every decision.
func TestProducers_AgainstModel(t *testing.T) {
	outcomes := map[commit.Outcome]int{}
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		s := newMachine()
		s.Apply(1, &Batch{Commands: []Command{
			&CreateTopic{ID: topicID("t"), Name: "t", Partitions: 1}, &OpenSession{Instance: "a"},
		}}, nil, nil)
		models := make([]producerModel, 3)
		var high int64
		for n := uint32(1); n <= 300; n++ {
			batches, want := randomBatches(rng, models, &high)
			r := s.Apply(uint64(n)+1, &Batch{Commands: []Command{commitOf(1, n, n-1, section{"t", 0, batches})}}, nil, nil)
			require.NoError(t, r[0].Err)
			got := flatten(r[0].Value.(*commit.Result).Sections[0], batches)
			require.Equal(t, want, got, "seed %d commit %d: %+v", seed, n, batches)
			for _, g := range got {
				outcomes[g.Outcome]++
			}
		}
	}
	for _, o := range []commit.Outcome{commit.Accepted, commit.Duplicate, commit.Gap, commit.Fenced, commit.OutOfOrder} {
		require.Greater(t, outcomes[o], 20, "outcome %d", o)
	}
}

// randomBatches makes a section and what the models say of each batch.
func randomBatches(rng *rand.Rand, models []producerModel, high *int64) (batches []commit.Batch, want []commit.Span) {
	for range 1 + rng.IntN(6) {
		b := commit.Batch{Records: 1 + rng.Int32N(9), Bytes: 100, MaxTimestamp: -1, ProducerID: commit.NoProducer}
		if rng.IntN(8) == 0 {
			b.Records = math.MaxInt32 - rng.Int32N(100)
		}
		outcome, base := commit.Accepted, *high
		if i := rng.IntN(len(models) + 1); i < len(models) {
			m := &models[i]
			b.ProducerID, b.ProducerEpoch = int64(i), m.epoch
			aim := m.next
			if k := len(m.batches); k > 0 && rng.IntN(3) == 0 {
				old := m.batches[max(k-1-rng.IntN(8), 0)]
				aim, b.Records = old.start, int32(old.records)+rng.Int32N(2)*(rng.Int32N(3)-1)
				b.Records = max(b.Records, 1)
			}
			if rng.IntN(6) == 0 {
				aim += int64(rng.IntN(20) - 5)
			}
			if rng.IntN(25) == 0 {
				b.ProducerEpoch += int16(rng.IntN(3) - 1)
				aim = int64(rng.IntN(2))
			}
			b.ProducerEpoch = max(b.ProducerEpoch, 0)
			b.BaseSequence = int32(max(aim, 0) & math.MaxInt32)
			outcome, base = m.decide(&b, *high)
		}
		if outcome == commit.Accepted {
			*high += int64(b.Records)
		}
		batches = append(batches, b)
		want = append(want, commit.Span{Batches: 1, Outcome: outcome, Base: base})
	}
	return batches, want
}

// flatten gives one span per batch.
func flatten(s commit.SectionResult, batches []commit.Batch) (spans []commit.Span) {
	for _, span := range s.Spans {
		for range span.Batches {
			one := commit.Span{Batches: 1, Outcome: span.Outcome, Base: span.Base}
			if span.Outcome == commit.Accepted {
				span.Base += int64(batches[len(spans)].Records)
			}
			spans = append(spans, one)
		}
	}
	return spans
}

// randomCommands makes commands of every kind over a few names, so that they meet.
func randomCommands(rng *rand.Rand, s *machine) []Command {
	var list []Command
	topic := func() id.Topic { return topicID(fmt.Sprint(rng.IntN(4))) }
	for range 1 + rng.IntN(4) {
		session := id.Session(1 + rng.IntN(6))
		info, _ := s.Session(session)
		switch rng.IntN(45) {
		case 0:
			t := topic()
			list = append(list, &CreateTopic{ID: t, Name: topicName(t), Partitions: 1 + rng.Int32N(40), ReplicationFactor: int16(rng.IntN(MaxReplicationFactor + 2))})
		case 1:
			if rng.IntN(4) == 0 {
				list = append(list, &DeleteTopic{ID: topic(), KeepMs: rng.Int64N(2) * 1000})
			}
		case 2:
			list = append(list, &OpenSession{Instance: fmt.Sprint(rng.IntN(3)), Endpoints: make([]Endpoint, rng.IntN(3))})
		case 3:
			if rng.IntN(5) == 0 {
				list = append(list, &CloseSession{Session: session}, &DrainSession{Session: session + 1})
			}
		case 4:
			tp := id.TopicPartition{Topic: topic(), Partition: rng.Int32N(40)}
			w, _ := s.Watermarks(tp)
			list = append(list, &TrimPartitions{Trims: []Trim{{tp, rng.Int64N(w.HighWatermark + 1)}}})
		case 5:
			list = append(list, &Tick{}, &AllocateProducerIDs{Count: rng.Int32N(3)})
		case 6:
			list = append(list, &SetConfigs{
				Resource: ConfigTopic, Topic: topic(), Set: map[string]string{fmt.Sprint(rng.IntN(9)): "x"}, Delete: []string{"3"},
			}, &SetConfigs{Resource: ConfigBroker, Set: map[string]string{"a": "b"}})
			if rng.IntN(4) == 0 {
				list = append(list, &SetConfigs{Resource: ConfigTopic, Topic: topic(), Set: map[string]string{"retention.ms": fmt.Sprint(rng.IntN(2))}})
			}
		case 30:
			list = append(list, randomLifecycle(rng, s)...)
		case 29:
			forget := &ForgetBundles{}
			for b := range s.DeadBundles() {
				forget.Bundles = append(forget.Bundles, b)
			}
			list = append(list, forget)
		case 7:
			list = append(list, &AbandonSubmission{Submission: id.Submission{Session: session, N: info.NextN}})
		case 8, 9, 10, 11, 12, 13, 14, 15:
			list = append(list, randomTransaction(rng, s))
		case 31, 32, 33:
			list = append(list, randomJob(rng, s))
		case 44:
			list = append(list, &SetReplicationFactor{ID: topic(), Factor: int16(rng.IntN(MaxReplicationFactor + 2))})
		case 24, 25, 26, 27, 28:
			list = append(list, randomGroup(rng))
		case 16, 17, 18, 19, 20, 21, 22, 23:
			list = append(list, randomTransactional(rng, s, session, info.NextN))
		default:
			list = append(list, randomCommit(rng, session, info.NextN))
		}
	}
	return list
}

// randomLifecycle takes deletions back or purges them, and sweeps.
func randomLifecycle(rng *rand.Rand, s *machine) []Command {
	purge := &PurgeTopics{}
	var list []Command
	for d := range s.DeletedTopics() {
		switch rng.IntN(4) {
		case 0:
			purge.Topics = append(purge.Topics, PurgedTopic{ID: d.ID, Index: d.Index - rng.Uint64N(2)})
		case 1:
			list = append(list, &UndeleteTopic{ID: d.ID})
		case 2:
			list = append(list, &UndeleteTopic{ID: d.ID, Name: fmt.Sprint(rng.IntN(9))})
		}
	}
	for w := range s.EndedWriters() {
		if rng.IntN(3) == 0 {
			list = append(list, &RecordSweep{Writers: []id.Session{w.ID, w.ID + 1}})
		}
	}
	return append(list, purge)
}

func randomCommit(rng *rand.Rand, session id.Session, n uint32) *CommitBundle {
	h := commit.Header{Submission: id.Submission{Session: session, N: n}, Bytes: 1 << 20, Acked: n - min(n, rng.Uint32N(4))}
	if n > 1 && rng.IntN(5) == 0 {
		h.Submission.N, h.Resubmit = 1+rng.Uint32N(n+2), true
	}
	var sections []section
	for range 1 + rng.IntN(30) {
		sec := section{topic: fmt.Sprint(rng.IntN(4)), partition: rng.Int32N(40)}
		for range 1 + rng.IntN(4) {
			b := commit.Batch{Records: 1 + rng.Int32N(3), Bytes: 61, MaxTimestamp: rng.Int64N(100), ProducerID: -1}
			if h.Resubmit || rng.IntN(3) > 0 {
				b.ProducerID, b.BaseSequence = rng.Int64N(6), rng.Int32N(8)
			}
			sec.batches = append(sec.batches, b)
		}
		sections = append(sections, sec)
	}
	return &CommitBundle{Encoded: encodeCommit(h, sections...)}
}

// TestState_RandomHistories applies random histories to a state and to a replica that is now and then replaced by its
// own snapshot; both stay equal. Bundles count exactly the extents there are, and snapshots keep their content.
func TestState_RandomHistories(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 3))
		state, replica := newMachine(), newMachine()
		type kept struct {
			s    *machine
			hash uint64
		}
		var snapshots []kept
		now := int64(0)
		for index := uint64(1); index <= 250; index++ {
			now += rng.Int64N(resultRetentionMs / 3)
			b := &Batch{Now: now, Commands: randomCommands(rng, state)}
			parsed, err := ParseBatch(AppendBatch(nil, b))
			require.NoError(t, err)
			var fx, fx2 Effects
			require.Equal(t, state.Apply(index, b, &fx, nil), replica.Apply(index, parsed, &fx2, nil))
			require.Equal(t, fx, fx2)
			if rng.IntN(10) == 0 {
				frozen := state.snapshot()
				snapshots = append(snapshots, kept{frozen, frozen.Hash()})
				require.Equal(t, frozen.Hash(), replica.Hash(), "seed %d index %d", seed, index)
				replica = restore(t, replica)
				requireBundlesCount(t, frozen)
				requireWhole(t, frozen)
				requireDerived(t, frozen)
				requireGroupsTidy(t, frozen)
				requireDerived(t, replica)
			}
		}
		for _, k := range snapshots {
			require.Equal(t, k.hash, k.s.Hash(), "snapshot at %d changed", k.s.Index())
		}
	}
}

// requireBundlesCount counts the extents of every bundle anew.
func requireBundlesCount(t *testing.T, s *machine) {
	t.Helper()
	count := map[id.Bundle]liveBundle{}
	add := func(x *extent.Extent) bool {
		if x.Kind == extent.Marker {
			return true
		}
		l := count[x.Bundle]
		l.extents++
		l.liveBytes += x.Length
		count[x.Bundle] = l
		return true
	}
	s.everyTree(func(tree extent.Tree) bool {
		tree.Ascend(0, add)
		return true
	})
	require.Equal(t, len(count), s.bundles.Len())
	load := s.Load()
	s.countLoad()
	require.Equal(t, s.Load(), load)
	s.bundles.Scan(func(b id.Bundle, l liveBundle) bool {
		require.Equal(t, count[b].extents, l.extents)
		require.Equal(t, count[b].liveBytes, l.liveBytes)
		_, dead := s.dead.Get(b)
		require.False(t, dead)
		return true
	})
}

// TestSnapshot_ReadWhileApplying reads snapshots in another goroutine while commits, trims and ticks go on: the race
// detector must stay silent, and a snapshot must not change.
func TestSnapshot_ReadWhileApplying(t *testing.T) {
	l := newLoad(200, 2000, 50, 2)
	s := l.state()
	index := uint64(1)
	snapshots := make(chan *machine)
	result := make(chan error)
	go func() {
		var err error
		for frozen := range snapshots {
			if a, b := frozen.Hash(), frozen.Hash(); a != b {
				err = fmt.Errorf("snapshot of %d changed from %x to %x", frozen.Index(), a, b)
			}
			for tp := range frozen.Topics() {
				p := id.TopicPartition{Topic: tp.ID}
				frozen.Extents(p, 0, 10, 0)
				frozen.FindTimestamp(p, 0, 1)
				frozen.ProducerSequence(p, benchFirstProducerID, 0)
			}
			for e := range frozen.Sessions() {
				frozen.Settled(id.Submission{Session: e.ID, N: e.NextN - 1})
			}
		}
		result <- err
	}()
	for i := range 400 {
		index++
		commands := []Command{&CommitBundle{Encoded: l.commit()}}
		if i%7 == 0 {
			tp := id.TopicPartition{Topic: l.topic(i % benchTopics), Partition: int32(i % 10)}
			commands = append(commands, &TrimPartitions{Trims: []Trim{{tp, -1}}}, &Tick{})
		}
		s.Apply(index, &Batch{Now: int64(index), Commands: commands}, nil, nil)
		select {
		case snapshots <- s.snapshot():
		default:
		}
	}
	close(snapshots)
	require.NoError(t, <-result)
}

func TestApply_RefusesSnapshotsAndOldEntries(t *testing.T) {
	s := newMachine()
	s.Apply(1, &Batch{}, nil, nil)
	require.Panics(t, func() { s.Apply(1, &Batch{}, nil, nil) })
	require.Panics(t, func() { s.snapshot().Apply(2, &Batch{}, nil, nil) })
	s.Apply(2, &Batch{Now: 50}, nil, nil)
	s.Apply(3, &Batch{Now: 40}, nil, nil)
	require.Equal(t, int64(50), s.Now(), "time does not go back")
}

// TestTick_BoundedWork expires more producers, and cleans up more extents, than one Tick may look at.
func TestTick_BoundedWork(t *testing.T) {
	s := newMachine()
	s.Apply(1, &Batch{Commands: []Command{
		&CreateTopic{ID: topicID("t"), Name: "t", Partitions: 100}, &OpenSession{Instance: "a"},
	}}, nil, nil)
	const perPartition = 90
	n, producerID := uint32(0), int64(0)
	for p := range int32(100) {
		for range perPartition {
			n++
			b := commit.Batch{Records: 1, Bytes: 61, ProducerID: producerID}
			producerID++
			s.Apply(uint64(n)+1, &Batch{Commands: []Command{commitOf(1, n, n-1, section{"t", p, []commit.Batch{b}})}}, nil, nil)
		}
	}
	index := uint64(n) + 1
	tick := func() {
		index++
		s.Apply(index, &Batch{Now: ProducerIDExpirationMs + useSpan*1000, Commands: []Command{&Tick{}}}, nil, nil)
	}
	left := func() (producers int) {
		s.topics.Scan(func(_ string, e *topicEntry) bool {
			e.partitions.Scan(func(_ int32, p *partition) bool {
				producers += p.producers.Len()
				return true
			})
			return true
		})
		return producers
	}
	tick()
	require.Greater(t, left(), 100*perPartition-sweepSteps)
	tick()
	tick()
	require.Zero(t, left())
	index++
	s.Apply(index, &Batch{Commands: []Command{&DeleteTopic{ID: topicID("t")}}}, nil, nil)
	require.Equal(t, 100*perPartition, s.bundles.Len())
	tick()
	require.Equal(t, 100*perPartition-cleanupExtents, s.bundles.Len())
	tick()
	tick()
	require.Zero(t, s.bundles.Len())
	require.Equal(t, 100*perPartition, s.dead.Len())
}
