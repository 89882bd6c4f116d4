package metadata

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// shortLivedN is how many short-lived producers come in a day.
	shortLivedN = 100_000
	longLivedN  = 20
	// inFlight is how many batches a Kafka client sends before it has the first one's answer.
	inFlight = 5
	// rememberedMs is how long Kafka remembers an idle producer (producer.id.expiration.ms).
	rememberedMs = 24 * 60 * 60 * 1000
	// tickMs is how often an owner proposes a Tick, by command time.
	tickMs = 10_000
	// shadowTicks is for how long a restored state runs beside the state that it was restored from.
	shadowTicks = 60
)

// producerDay is one partition over some simulated days, with a model of all that its producers may be answered. Commands come
// as the owner proposes them: every 10 seconds a bundle of what was sent meanwhile, by one of three agents in turn, and a Tick.
type producerDay struct {
	t      *testing.T
	rng    *rand.Rand
	s      *machine
	shadow *machine // the state before it was restored; nil if none runs
	index  uint64
	now    int64
	step   int
	last   [3]uint32 // submission of each session

	high    int64            // the model's end of the partition
	limit   int64            // of active producers
	spans   map[int64]uint32 // span of the last use by active producer
	swept   uint32           // span below which all producers have expired
	expired int
	sent    []expected
	later   map[int][]*shortLived // by step
	long    []*longLived

	peak                             producerCount
	peakBytes                        int // of a snapshot, what producers take
	batches, gaps, repeated, refused int
	shadowed                         int
}

// expected is a batch with the answer that the model has for it.
type expected struct {
	batch   commit.Batch
	outcome commit.Outcome
	base    int64
}

// sequence is what an honest client knows of its own batches. Only its latest batches may be sent again.
type sequence struct {
	producerID int64
	next       int32
	latest     []expected // accepted ones, at most inFlight
}

// longLived is a producer that writes every period, from its first step on.
type longLived struct {
	sequence
	period, due int
	turns       int
}

// shortLived is a producer that writes a few batches and then nothing any more.
type shortLived struct {
	sequence
	batches, tries int
}

func newProducerDay(t *testing.T, limit int64) *producerDay {
	t.Helper()
	d := &producerDay{
		t: t, rng: rand.New(rand.NewPCG(5, 6)), s: newMachine(), now: 1_700_000_000_000,
		limit: limit, spans: map[int64]uint32{}, later: map[int][]*shortLived{},
	}
	d.apply(&CreateTopic{ID: topicID("t"), Name: "t", Partitions: 1})
	for _, agent := range []string{"a", "b", "c"} {
		d.apply(&OpenSession{Instance: agent})
	}
	d.apply(&LimitProducers{Active: limit})
	return d
}

// apply applies commands, and requires the same results of the state that this one was restored from.
func (d *producerDay) apply(commands ...Command) []Result {
	d.index++
	got := d.s.Apply(d.index, &Batch{Now: d.now, Commands: commands}, nil, nil)
	if d.shadow != nil {
		require.Equal(d.t, d.shadow.Apply(d.index, &Batch{Now: d.now, Commands: commands}, nil, nil), got, "restored state")
	}
	return got
}

func (d *producerDay) producerID() int64 {
	return d.apply(&AllocateProducerIDs{Count: 1})[0].Value.(int64)
}

// next sends the producer's next batch, and returns false if it is to be refused.
func (d *producerDay) next(q *sequence) bool {
	_, active := d.spans[q.producerID]
	b := commit.Batch{Records: 1 + d.rng.Int32N(20), Bytes: 500, MaxTimestamp: d.now, ProducerID: q.producerID, BaseSequence: q.next}
	if !active && int64(len(d.spans)) >= d.limit {
		d.sent = append(d.sent, expected{b, commit.TooManyProducers, -1})
		d.refused++
		return false
	}
	e := expected{b, commit.Accepted, d.high}
	d.sent = append(d.sent, e)
	d.high += int64(b.Records)
	d.spans[q.producerID] = seconds(d.now) / useSpan
	q.next += b.Records
	q.latest = append(q.latest, e)
	q.latest = q.latest[max(0, len(q.latest)-inFlight):]
	return true
}

// repeat sends some of the latest batches again, as a client does that missed their answers.
func (d *producerDay) repeat(q *sequence) {
	for _, e := range q.latest[d.rng.IntN(len(q.latest)):] {
		d.sent = append(d.sent, expected{e.batch, commit.Duplicate, e.base})
		d.repeated++
	}
}

// ahead sends a batch that is to come after the next one.
func (d *producerDay) ahead(q *sequence) {
	b := commit.Batch{Records: 1, Bytes: 500, MaxTimestamp: d.now, ProducerID: q.producerID, BaseSequence: q.next + 1 + d.rng.Int32N(50)}
	d.sent = append(d.sent, expected{b, commit.Gap, -1})
	d.gaps++
}

// write lets a long-lived producer have its turn. Its first one begins with a batch ahead of the first sequence.
func (d *producerDay) write(p *longLived) {
	if p.turns > 0 && d.rng.IntN(3) == 0 {
		d.repeat(&p.sequence)
	}
	if p.turns == 0 || d.rng.IntN(5) == 0 {
		d.ahead(&p.sequence)
	}
	for range 1 + d.rng.IntN(inFlight) {
		require.True(d.t, d.next(&p.sequence), "a long-lived producer")
	}
	if d.rng.IntN(4) == 0 {
		d.repeat(&p.sequence)
	}
	p.turns++
	p.due = d.step + 1 + p.period/2 + d.rng.IntN(p.period/2+1)
}

// visit lets a short-lived producer write one batch. If that is refused, it tries once more.
func (d *producerDay) visit(p *shortLived) {
	if p.next == 0 && d.rng.IntN(10) == 0 {
		d.ahead(&p.sequence)
	}
	if !d.next(&p.sequence) {
		if p.tries++; p.tries < 2 {
			d.later[d.step+1] = append(d.later[d.step+1], p)
		}
		return
	}
	if d.rng.IntN(3) == 0 {
		d.repeat(&p.sequence)
	}
	if p.batches--; p.batches > 0 {
		at := d.step + d.rng.IntN(3)
		if at == d.step {
			d.visit(p)
			return
		}
		d.later[at] = append(d.later[at], p)
	}
}

// commit hands in what was sent in this step, and requires the model's answers.
func (d *producerDay) commit() {
	if len(d.sent) == 0 {
		return
	}
	session := d.step % len(d.last)
	d.last[session]++
	n := d.last[session]
	var b commit.Builder
	b.Reset(commit.Header{Submission: id.Submission{Session: id.Session(1 + session), N: n}, Acked: n - 1, Bytes: 1 << 24})
	b.Section(commit.Section{Partition: partitionID(d.t, "t/0")})
	for _, e := range d.sent {
		b.Batch(e.batch)
	}
	r := d.apply(&CommitBundle{Encoded: b.AppendTo(nil)})[0]
	require.NoError(d.t, r.Err)
	i := 0
	for _, span := range r.Value.(*commit.Result).Sections[0].Spans {
		base := span.Base
		for range span.Batches {
			e := d.sent[i]
			if span.Outcome != e.outcome || base != e.base {
				require.Equal(d.t, e, expected{e.batch, span.Outcome, base}, "step %d, batch %d", d.step, i)
			}
			if base >= 0 {
				base += int64(e.batch.Records)
			}
			i++
		}
	}
	require.Len(d.t, d.sent, i)
	d.batches += i
	d.sent = d.sent[:0]
}

// tick is a Tick, after which the state remembers as many producers as the model.
func (d *producerDay) tick() {
	d.now += tickMs
	d.apply(&Tick{})
	if below := seconds(d.now-rememberedMs) / useSpan; below > d.swept {
		d.swept = below
		for producerID, span := range d.spans {
			if span < below {
				delete(d.spans, producerID)
				d.expired++
			}
		}
	}
	want := producerCount{active: len(d.spans), resting: min(d.expired, maxResting, int(d.limit/restingShare))}
	if d.s.counts != want {
		require.Equal(d.t, want, d.s.counts, "step %d", d.step)
	}
	d.peak.active, d.peak.resting = max(d.peak.active, want.active), max(d.peak.resting, want.resting)
}

// goOnFromSnapshot makes the state one that was restored from its snapshot. The state before runs beside it for a while.
func (d *producerDay) goOnFromSnapshot() {
	restored := restore(d.t, d.s)
	require.Equal(d.t, d.s.Hash(), restored.Hash())
	d.shadow, d.s = d.s, restored
	d.shadowed++
}

// producerBytes returns what producers take in a snapshot of the state.
func (d *producerDay) producerBytes() int {
	without := restore(d.t, d.s)
	e, _ := without.topics.Get(topicKey(topicID("t")))
	p, _ := e.partition(0)
	require.LessOrEqual(d.t, len(p.forgotten), maxForgottenRanges)
	p.producers, p.active, p.resting, p.idle, p.forgotten = newProducers(), useOrder{}, nil, useOrder{}, nil
	return snapshotBytes(d.t, d.s) - snapshotBytes(d.t, without)
}

func snapshotBytes(t *testing.T, s *machine) int {
	t.Helper()
	var buf bytes.Buffer
	require.NoError(t, s.snapshot().Encode(&buf))
	return buf.Len()
}

const stepsPerHour = 3600_000 / tickMs

// startLong makes the long-lived producers: their periods are 3 minutes to 20 hours. Without a lower bound, four of them begin
// after 30 hours only, with ids that were given before, at the beginning and among those of the short-lived.
func (d *producerDay) startLong() {
	for i := range longLivedN {
		period := int(18 * math.Pow(20*stepsPerHour/18.0, float64(i)/(longLivedN-1)))
		p := &longLived{sequence: sequence{producerID: -1}, period: period, due: d.rng.IntN(stepsPerHour / 10)}
		late := d.limit == MaxProducers && i%5 == 3
		if late {
			p.due = 30 * stepsPerHour
		}
		if !late || i == 3 {
			p.producerID = d.producerID()
		}
		d.long = append(d.long, p)
	}
}

// run lets short-lived producers arrive evenly over so many hours, and goes on until the given hour. Every 7 hours the state
// goes on from its snapshot.
func (d *producerDay) run(arrivals, over, until int) {
	d.startLong()
	for ; d.step < until*stepsPerHour; d.step++ {
		for i, p := range d.long {
			if p.producerID < 0 && d.step == i/5*2*stepsPerHour {
				p.producerID = d.producerID()
			}
			if p.due == d.step {
				d.write(p)
			}
		}
		for _, p := range d.later[d.step] {
			d.visit(p)
		}
		delete(d.later, d.step)
		if steps := over * stepsPerHour; d.step < steps {
			for range arrivals*(d.step+1)/steps - arrivals*d.step/steps {
				d.visit(&shortLived{sequence: sequence{producerID: d.producerID()}, batches: 1 + d.rng.IntN(3)})
			}
		}
		d.commit()
		d.tick()
		switch d.step % (7 * stepsPerHour) {
		case 7*stepsPerHour - 1:
			d.peakBytes = max(d.peakBytes, d.producerBytes())
			d.goOnFromSnapshot()
		case shadowTicks:
			d.shadow = nil
		}
	}
	w, _ := d.s.Watermarks(partitionID(d.t, "t/0"))
	require.Equal(d.t, d.high, w.HighWatermark, "each record has one offset")
}

// finish prints what the run came to, and compares it with what a producer may take.
func (d *producerDay) finish(arrivals int, began time.Time) {
	end := d.producerBytes()
	d.t.Logf("%d short-lived producers beside %d in %d simulated hours, %d ticks: %d batches decided in %v, %d of them repeated, %d ahead, %d "+
		"refused; %d records at as many offsets; %d times restored", arrivals, longLivedN, d.step/stepsPerHour, d.step, d.batches,
		time.Since(began).Round(100*time.Millisecond), d.repeated, d.gaps, d.refused, d.high, d.shadowed)
	d.t.Logf("at most %d active and %d at rest, %d bytes of a snapshot, about %d KiB of memory; at the end %d active, %d at rest, %d forgotten, "+
		"%d bytes of a snapshot of %d", d.peak.active, d.peak.resting, d.peakBytes,
		(d.peak.active*ProducerBytes+d.peak.resting*RestingBytes)>>10, len(d.spans), d.s.counts.resting, d.expired-d.s.counts.resting, end,
		snapshotBytes(d.t, d.s))
	require.Positive(d.t, d.shadowed)
	require.Less(d.t, d.peakBytes, d.peak.active*snapshotProducer+d.peak.resting*snapshotResting+maxForgottenRanges*20)
	require.Less(d.t, end, len(d.spans)*snapshotProducer+maxResting*snapshotResting+maxForgottenRanges*20)
	for _, p := range d.long {
		require.Greater(d.t, p.turns, 1)
		require.Contains(d.t, d.spans, p.producerID, "a long-lived producer is remembered")
	}
}

// What a producer takes in a snapshot, at most.
const (
	snapshotProducer = 64
	snapshotResting  = 32
)

// TestProducers_Day lets 100,000 short-lived producers write beside 20 long-lived ones to one partition in a simulated day. Then
// it goes on until they have expired. No batch gets a second offset, none is refused, and the state remembers no more producers
// than wrote within 24 hours and a span.
func TestProducers_Day(t *testing.T) {
	began := time.Now()
	d := newProducerDay(t, MaxProducers)
	d.run(shortLivedN, 24, 56)
	require.Zero(t, d.refused)
	require.Equal(t, shortLivedN, d.expired)
	require.Len(t, d.spans, longLivedN)
	d.finish(shortLivedN, began)
}

// TestProducers_DayAtTheBound is TestProducers_Day with room for a tenth of the producers and arrivals for 36 hours: at the bound new
// producers are refused until earlier ones have expired, and others never.
func TestProducers_DayAtTheBound(t *testing.T) {
	const arrivals, limit = shortLivedN * 3 / 2, shortLivedN / 10
	began := time.Now()
	d := newProducerDay(t, limit)
	d.run(arrivals, 36, 64)
	require.Greater(t, d.refused, shortLivedN)
	require.Equal(t, limit, d.peak.active)
	require.Greater(t, d.expired, limit, "there was room again")
	d.finish(arrivals, began)
}
