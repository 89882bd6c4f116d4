package metadata

import (
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/nightly"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

const minuteMs = 60_000

// producerHistory is one partition over simulated days: short-lived producers arrive evenly, each writes two batches within a
// minute and sends the first of them again. Beside them longLived producers write every minute, and every tenth of those only
// every 23 hours, and another tenth begins after two days. Each of their rounds is two batches, the later one first, and both again a minute later.
type producerHistory struct {
	t        *testing.T
	s        *machine
	index    uint64
	now      int64
	n        uint32
	rounds   []int32 // of the long-lived producers
	arrived  int64
	peak     producerCount
	batches  int
	restores int
}

// late is when every tenth long-lived producer begins, in minutes. Producers with higher ids were forgotten by then.
const late = 2 * 24 * 60

func newProducerHistory(t *testing.T, longLived int) *producerHistory {
	t.Helper()
	h := &producerHistory{t: t, s: newMachine(), now: 1_700_000_000_000, rounds: make([]int32, longLived)}
	h.apply(&CreateTopic{ID: topicID("t"), Name: "t", Partitions: 1},
		&OpenSession{Instance: "a"}, &AllocateProducerIDs{Count: int32(longLived)})
	return h
}

func (h *producerHistory) apply(commands ...Command) []Result {
	h.index++
	return h.s.Apply(h.index, &Batch{Now: h.now, Commands: commands}, nil, nil)
}

// send commits one-record batches and requires the same outcome of all.
func (h *producerHistory) send(want commit.Outcome, batches []commit.Batch) {
	if len(batches) == 0 {
		return
	}
	h.n++
	var b commit.Builder
	b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: h.n}, Acked: h.n - 1, Bytes: 1 << 24})
	b.Section(commit.Section{Partition: partitionID(h.t, "t/0")})
	for i := range batches {
		b.Batch(batches[i])
	}
	r := h.apply(&CommitBundle{Encoded: b.AppendTo(nil)})[0]
	require.NoError(h.t, r.Err)
	for _, span := range r.Value.(*commit.Result).Sections[0].Spans {
		require.Equal(h.t, want, span.Outcome, "minute %d", h.n)
	}
	h.batches += len(batches)
}

func historyBatch(producerID int64, sequence int32) commit.Batch {
	return commit.Batch{Records: 1, Bytes: 100, MaxTimestamp: 1, ProducerID: producerID, BaseSequence: sequence}
}

// minute lets so many producers arrive, and everyone write.
func (h *producerHistory) minute(minute, arrivals int) {
	var ahead, next, again []commit.Batch
	for p := range int64(len(h.rounds)) {
		round := h.rounds[p]
		rare := p%10 == 0
		if rare && minute%(23*60) != 0 && minute%(23*60) != 1 || p%10 == 5 && minute < late {
			continue
		}
		if round > 0 {
			again = append(again, historyBatch(p, 2*round-2), historyBatch(p, 2*round-1))
		}
		if rare && minute%(23*60) == 1 {
			continue
		}
		ahead = append(ahead, historyBatch(p, 2*round+1))
		next = append(next, historyBatch(p, 2*round), historyBatch(p, 2*round+1))
		h.rounds[p]++
	}
	if arrivals > 0 {
		first := h.apply(&AllocateProducerIDs{Count: int32(arrivals)})[0].Value.(int64)
		for p := first; p < first+int64(arrivals); p++ {
			ahead = append(ahead, historyBatch(p, 1))
			next = append(next, historyBatch(p, 0), historyBatch(p, 1))
			again = append(again, historyBatch(p, 0))
		}
	}
	h.send(commit.Gap, ahead)
	h.send(commit.Accepted, next)
	h.now += minuteMs
	h.send(commit.Duplicate, again)
	for range 6 {
		h.apply(&Tick{})
	}
	l := h.s.Load()
	h.peak.active, h.peak.resting = max(h.peak.active, l.Producers), max(h.peak.resting, l.Resting)
	h.arrived += int64(arrivals)
}

// run lets producers arrive evenly over so many days. Every other day the state goes on from its snapshot.
func (h *producerHistory) run(producers int64, days int) {
	minutes := days * 24 * 60
	for m := range minutes {
		h.minute(m, int(producers*int64(m+1)/int64(minutes)-producers*int64(m)/int64(minutes)))
		if m%(2*24*60) == 2*24*60-1 {
			h.s = restore(h.t, h.s)
			h.restores++
		}
	}
}

// TestProducers_History runs 30,000 short-lived producers over three days beside 10 long-lived ones, in make nightly 90,000
// beside 20. With FRESHET_PRODUCERS it runs that many over 30 days beside 100 (make producers: 10,000,000).
func TestProducers_History(t *testing.T) {
	producers, days, longLived := int64(30_000), 3, 10
	if nightly.On() {
		producers, longLived = 90_000, 20
	}
	if v := os.Getenv("FRESHET_PRODUCERS"); v != "" {
		n, err := strconv.ParseInt(v, 10, 64)
		require.NoError(t, err)
		producers, days, longLived = n, 30, 100
	}
	began := time.Now()
	h := newProducerHistory(t, longLived)
	h.run(producers, days)
	require.Equal(t, producers, h.arrived)
	// 24 hours, the span of the order of last use, the minute of a step, and the span that is under way.
	perMinute := int(producers)/(days*24*60) + 1
	require.LessOrEqual(t, h.peak.active, longLived+perMinute*(24*60+2*useSpan/60+2))
	require.LessOrEqual(t, h.peak.resting, maxResting)
	e, _ := h.s.topics.Get(topicKey(topicID("t")))
	p, _ := e.partition(0)
	require.NotEmpty(t, p.forgotten)
	before := heap()
	h.s.topics.Scan(func(_ string, e *topicEntry) bool {
		e.partitions.Scan(func(_ int32, p *partition) bool {
			p.producers, p.active, p.resting, p.idle = newProducers(), useOrder{}, nil, useOrder{}
			return true
		})
		return true
	})
	held := before - heap()
	t.Logf("%d short-lived producers in %d days beside %d: %d batches decided in %v, %d times restored from a snapshot; at most %d active and "+
		"%d at rest, %.1f MiB, %d bytes each", producers, days, longLived, h.batches, time.Since(began).Round(time.Second), h.restores,
		h.peak.active, h.peak.resting, float64(held)/(1<<20), held/int64(h.peak.active))
	require.Less(t, held, int64(h.peak.active)*ProducerBytes+int64(h.peak.resting)*RestingBytes+1<<20)
	runtime.KeepAlive(h)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
