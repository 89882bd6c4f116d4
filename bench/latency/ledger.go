package latency

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/bench/load"
)

// headBytes begin a record's value: its number, and when it was sent, ns of the ledger's clock. Both big endian.
const headBytes = 16

// maxRecords bounds the records of one measurement, which takes 24 bytes of memory for each.
const maxRecords = 50_000_000

var errRecords = errors.New("not every record was acknowledged and read once, at the same offset")

// ledger knows of every record where its producer was told that it is, and where the consumer found it. What producers are
// told is kept for each of them apart (tally), what the consumer finds by itself: a lock that all of them take for every
// record would show in the latencies.
type ledger struct {
	began  time.Time
	from   time.Duration // what is sent from then on is measured
	sent   atomic.Int64  // records numbered
	ackedN atomic.Int64
	seenN  atomic.Int64

	mu      sync.Mutex
	faults  []error // the first few
	tallies []*tally

	reading  sync.Mutex
	seen     []place // by number
	endToEnd *hdrhistogram.Histogram
}

// tally is what one producer was told. Its client tells one thing after the other.
type tally struct {
	ledger *ledger

	mu       sync.Mutex
	acked    []acked
	publish  *hdrhistogram.Histogram
	measured int
	bytes    int64
}

type acked struct {
	number uint32
	at     place
}

// place is a record's partition and offset, plus one; 0 is nowhere.
type place int64

const offsetBits = 48

func placeOf(r *kgo.Record) place { return place(int64(r.Partition)<<offsetBits|r.Offset) + 1 }

func (p place) String() string {
	if p == 0 {
		return "nowhere"
	}
	return fmt.Sprintf("partition %d offset %d", int64(p-1)>>offsetBits, int64(p-1)&(1<<offsetBits-1))
}

func newLedger(warmUp time.Duration) *ledger {
	return &ledger{began: time.Now(), from: warmUp, endToEnd: load.NewLatencies().EndToEnd}
}

// producer enters a producer.
func (l *ledger) producer() *tally {
	t := &tally{ledger: l, publish: load.NewLatencies().Publish}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tallies = append(l.tallies, t)
	return t
}

// number gives the first number of n records that are about to be sent.
func (l *ledger) number(n int) (first int64, err error) {
	after := l.sent.Add(int64(n))
	if after > maxRecords {
		return 0, fmt.Errorf("more than %d records", maxRecords)
	}
	return after - int64(n), nil
}

// head begins the value of a record that is about to be sent.
func (l *ledger) head(value []byte, number int64) {
	binary.BigEndian.PutUint64(value, uint64(number))
	binary.BigEndian.PutUint64(value[8:], uint64(time.Since(l.began)))
}

// parse gives a record's number and when it was sent; not ok: it is none that was sent.
func (l *ledger) parse(r *kgo.Record) (number int64, sent time.Duration, ok bool) {
	if len(r.Value) < headBytes {
		return 0, 0, false
	}
	number = int64(binary.BigEndian.Uint64(r.Value))
	return number, time.Duration(binary.BigEndian.Uint64(r.Value[8:])), number >= 0 && number < l.sent.Load()
}

// acknowledged takes the answer to one record.
func (t *tally) acknowledged(r *kgo.Record, err error) {
	l := t.ledger
	now := time.Since(l.began)
	if err != nil {
		l.fault(fmt.Errorf("produce: %w", err))
		return
	}
	number, sent, _ := l.parse(r)
	l.ackedN.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acked = append(t.acked, acked{uint32(number), placeOf(r)})
	if sent >= l.from {
		_ = t.publish.RecordValue((now - sent).Microseconds()) // within the range
		t.measured++
		t.bytes += int64(len(r.Value))
	}
}

// read takes what a consumer found, all at one moment.
func (l *ledger) read(fetches kgo.Fetches) {
	now := time.Since(l.began)
	l.reading.Lock()
	defer l.reading.Unlock()
	fetches.EachRecord(func(r *kgo.Record) {
		number, sent, ok := l.parse(r)
		if !ok {
			l.fault(fmt.Errorf("%w: %v holds what was never sent", errRecords, placeOf(r)))
			return
		}
		if more := int(number) + 1 - len(l.seen); more > 0 {
			l.seen = append(l.seen, make([]place, more)...)
		}
		if before := l.seen[number]; before != 0 {
			l.fault(fmt.Errorf("%w: record %d at %v and %v", errRecords, number, before, placeOf(r)))
			return
		}
		l.seen[number] = placeOf(r)
		l.seenN.Add(1)
		if sent >= l.from {
			_ = l.endToEnd.RecordValue((now - sent).Microseconds())
		}
	})
}

// maxFaults bounds the faults that are kept.
const maxFaults = 5

func (l *ledger) fault(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.faults) < maxFaults {
		l.faults = append(l.faults, err)
	}
}

// complete tells whether the consumer has found as many records as were acknowledged, or something is wrong.
func (l *ledger) complete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seenN.Load() >= l.ackedN.Load() || len(l.faults) > 0
}

// check compares what producers were told with what the consumer found. Producers and consumer are at their end.
func (l *ledger) check() error {
	told := make([]place, l.sent.Load())
	for _, t := range l.tallies {
		for _, a := range t.acked {
			if told[a.number] != 0 {
				l.fault(fmt.Errorf("%w: record %d was acknowledged at %v and %v", errRecords, a.number, told[a.number], a.at))
			}
			told[a.number] = a.at
		}
	}
	for n, at := range told {
		var found place
		if n < len(l.seen) {
			found = l.seen[n]
		}
		if at == 0 || at != found {
			l.fault(fmt.Errorf("%w: record %d was acknowledged at %v and read at %v", errRecords, n, at, found))
		}
	}
	return errors.Join(l.faults...)
}

// measured is what was sent in the time measured.
type measured struct {
	records           int
	bytes             int64
	produce, endToEnd Quantiles
}

// measured is taken at the end.
func (l *ledger) measured() (m measured) {
	publish := load.NewLatencies().Publish
	for _, t := range l.tallies {
		publish.Merge(t.publish)
		m.records += t.measured
		m.bytes += t.bytes
	}
	m.produce, m.endToEnd = quantilesOf(publish), quantilesOf(l.endToEnd)
	return m
}

func quantilesOf(h *hdrhistogram.Histogram) Quantiles {
	micros := func(q float64) time.Duration { return time.Duration(h.ValueAtQuantile(q)) * time.Microsecond }
	return Quantiles{micros(50), micros(99)}
}
