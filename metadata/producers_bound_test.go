package metadata

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/commit"
)

// producersWorld is a state with a topic of ten partitions and lowered bounds.
type producersWorld struct {
	t     *testing.T
	s     *machine
	index uint64
	now   int64
	n     uint32
}

func newProducersWorld(t *testing.T, bounds producerBounds) *producersWorld {
	t.Helper()
	w := &producersWorld{t: t, s: newMachine(), now: 1_700_000_000_000}
	w.s.bounds = bounds
	w.apply(&CreateTopic{ID: topicID("t"), Name: "t", Partitions: 10}, &OpenSession{Instance: "a"})
	return w
}

func (w *producersWorld) apply(commands ...Command) []Result {
	w.index++
	return w.s.Apply(w.index, &Batch{Now: w.now, Commands: commands}, nil, nil)
}

func (w *producersWorld) send(partition int32, producerID int64, sequence int32) commit.Outcome {
	w.t.Helper()
	w.n++
	b := commit.Batch{Records: 1, Bytes: 100, MaxTimestamp: 1, ProducerID: producerID, BaseSequence: sequence}
	r := w.apply(commitOf(1, w.n, w.n-1, section{"t", partition, []commit.Batch{b}}))[0]
	require.NoError(w.t, r.Err)
	return r.Value.(*commit.Result).Sections[0].Spans[0].Outcome
}

// pass lets time pass, and Ticks see it.
func (w *producersWorld) pass(ms int64) {
	w.now += ms
	for range 20 {
		w.apply(&Tick{})
	}
}

func (w *producersWorld) partition(n int32) *partition {
	e, _ := w.s.topics.Get(topicKey(topicID("t")))
	p, _ := e.partition(n)
	return p
}

// requireCounts compares the counts with the tables, and a restored state with this one.
func (w *producersWorld) requireCounts() {
	w.t.Helper()
	counted := w.s.counts
	got := restore(w.t, w.s)
	require.Equal(w.t, counted, got.counts)
	require.Equal(w.t, w.s.Hash(), got.Hash())
}

func TestProducers_RefusedAtTheBound(t *testing.T) {
	w := newProducersWorld(t, producerBounds{active: 3, resting: 10})
	for p := range int64(3) {
		require.Equal(t, commit.Accepted, w.send(0, p, 0))
	}
	require.Equal(t, commit.TooManyProducers, w.send(0, 3, 0))
	require.Equal(t, commit.TooManyProducers, w.send(1, 0, 0), "new to this partition")
	require.Equal(t, commit.Gap, w.send(0, 3, 1), "what is missing comes first")
	for p := range int64(3) {
		require.Equal(t, commit.Duplicate, w.send(0, p, 0))
		require.Equal(t, commit.Accepted, w.send(0, p, 1))
	}
	require.Nil(t, w.partition(1), "a refused batch leaves nothing")

	w.now += ProducerIDExpirationMs - minuteMs
	require.Equal(t, commit.Accepted, w.send(0, 2, 2))
	w.pass(useSpan*1000 + minuteMs)
	require.Equal(t, producerCount{active: 1, resting: 2}, w.s.counts)
	require.Equal(t, commit.Accepted, w.send(0, 3, 0))
	require.Equal(t, commit.Accepted, w.send(0, 0, 2), "it rested")
	require.Equal(t, commit.TooManyProducers, w.send(0, 1, 2), "it rests, and there is no room to be active")
	require.Equal(t, producerCount{active: 3, resting: 1}, w.s.counts)
	w.requireCounts()
}

// TestLimitProducers: the bound is in the log and in snapshots, and a lower one forgets nobody.
func TestLimitProducers(t *testing.T) {
	w := newProducersWorld(t, producerBounds{MaxProducers, MaxResting})
	require.ErrorIs(t, w.apply(&LimitProducers{})[0].Err, ErrInvalidCount)
	for p := range int64(3) {
		require.Equal(t, commit.Accepted, w.send(0, p, 0))
	}
	parsed, err := ParseBatch(AppendBatch(nil, &Batch{Commands: []Command{&LimitProducers{Active: 2}}}))
	require.NoError(t, err)
	require.Equal(t, []Command{&LimitProducers{Active: 2}}, parsed.Commands)
	require.NoError(t, w.apply(parsed.Commands...)[0].Err)
	require.EqualValues(t, 2, w.s.ProducerLimit())
	w.s = restore(t, w.s)
	require.Equal(t, commit.TooManyProducers, w.send(0, 3, 0))
	require.Equal(t, commit.Accepted, w.send(0, 2, 1))
	require.NoError(t, w.apply(&LimitProducers{Active: 4})[0].Err)
	require.Equal(t, commit.Accepted, w.send(0, 3, 0))
	w.requireCounts()
}

// TestProducers_ForgottenByLastUse lets a partition, and then the state, have more producers at rest than may be: those that
// wrote last stay, whatever their ids.
func TestProducers_ForgottenByLastUse(t *testing.T) {
	w := newProducersWorld(t, producerBounds{active: MaxProducers, resting: maxResting + 10})
	w.apply(&AllocateProducerIDs{Count: 10_000})
	const producers = 2 * maxResting
	for p := range int64(producers) {
		require.Equal(t, commit.Accepted, w.send(0, producers-p, 0))
		w.now += 10 * minuteMs
	}
	w.pass(ProducerIDExpirationMs + useSpan*1000)
	p := w.partition(0)
	require.Equal(t, producerCount{resting: maxResting}, p.producerCount())
	for id := int64(1); id <= maxResting; id++ {
		_, rests := p.restingOf(id)
		require.True(t, rests, "producer %d wrote later than %d", id, id+maxResting)
	}
	require.Equal(t, []idRange{{maxResting + 1, producers}}, p.forgotten)
	for p := range int64(20) {
		w.send(1, p, 0)
	}
	w.pass(ProducerIDExpirationMs + useSpan*1000)
	require.Equal(t, producerCount{resting: maxResting + 10}, w.s.counts, "the state's bound")
	require.Equal(t, 10, w.partition(1).producerCount().resting)
	w.requireCounts()
	require.Equal(t, commit.Accepted, w.send(0, producers, 7), "as Kafka takes a producer that it has forgotten")
	require.Equal(t, commit.Gap, w.send(0, 0, 1), "it was never here, though its id is lower")
	require.Equal(t, commit.Gap, w.send(0, producers+1, 1))
	w.apply(&DeleteTopic{ID: topicID("t")})
	require.Equal(t, producerCount{}, w.s.counts)
}

// TestProducers_OrderOfLastUse compares the order with a scan, over random changes of a partition around the size from which
// on the order is kept.
func TestProducers_OrderOfLastUse(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := &partition{producers: newProducers()}
	for range 20_000 {
		producerID := rng.Int64N(3 * orderedFrom)
		switch {
		case rng.IntN(2) == 0:
			p.setProducer(producerID, producer{seen: uint32(rng.IntN(5 * useSpan))})
		default:
			p.deleteProducer(producerID)
		}
		var got []lastUse
		p.ascendUses(func(u lastUse) bool {
			got = append(got, u)
			return true
		})
		ordered := p.active
		p.active = useOrder{}
		var want []lastUse
		p.ascendUses(func(u lastUse) bool {
			want = append(want, u)
			return true
		})
		p.active = ordered
		require.Equal(t, want, got)
		require.Equal(t, p.producers.Len() > orderedFrom, ordered.tree != nil)
	}
}

func TestSnapshotOfResting_GoldenAndRoundTrip(t *testing.T) {
	w := newProducersWorld(t, producerBounds{MaxProducers, MaxResting})
	w.send(0, 1, 0)
	w.pass(ProducerIDExpirationMs + minuteMs)
	w.send(0, 2, 0)
	w.pass(ProducerIDExpirationMs + useSpan*1000)
	w.send(0, 3, 0)
	w.partition(0).forget(40)
	w.partition(0).forget(42)
	w.partition(0).forget(43)
	var buf bytes.Buffer
	require.NoError(t, w.s.snapshot().Encode(&buf))
	golden(t, "snapshot-resting.hex", buf.Bytes())
	w.requireCounts()
	require.Equal(t, int64(1), w.partition(0).longestResting())
	require.Equal(t, commit.Accepted, w.send(0, 1, 1))
	require.Equal(t, commit.Gap, w.send(0, 2, 2))
	w.requireCounts()
}
