package latency

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/bench/load"
)

// headBytes begin a record's value: its number, and when it was sent, ns of the ledger's clock. Both big endian.
const headBytes = 16

// maxRecords bounds the records of one measurement, which takes 16 bytes of memory for each.
const maxRecords = 50_000_000

var errRecords = errors.New("not every record was acknowledged and read once, at the same offset")

// ledger knows of every record where its producer was told that it is, and where the consumer found it.
type ledger struct {
	began time.Time
	from  time.Duration // what is sent from then on is measured

	mu        sync.Mutex
	acked     []place // by number
	seen      []place // by number
	ackedN    int
	seenN     int
	faults    []error // the first few
	latencies load.Latencies
	measured  int
	bytes     int64
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
	return &ledger{began: time.Now(), from: warmUp, latencies: load.NewLatencies()}
}

// number enters a record that is about to be sent, and writes its head.
func (l *ledger) number(value []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.acked)
	if n >= maxRecords {
		return fmt.Errorf("more than %d records", maxRecords)
	}
	l.acked, l.seen = append(l.acked, 0), append(l.seen, 0)
	binary.BigEndian.PutUint64(value, uint64(n))
	binary.BigEndian.PutUint64(value[8:], uint64(time.Since(l.began)))
	return nil
}

func (l *ledger) head(r *kgo.Record) (n int, sent time.Duration, ok bool) {
	if len(r.Value) < headBytes {
		return 0, 0, false
	}
	n = int(binary.BigEndian.Uint64(r.Value))
	return n, time.Duration(binary.BigEndian.Uint64(r.Value[8:])), n < len(l.acked)
}

// acknowledged takes a producer's answer.
func (l *ledger) acknowledged(r *kgo.Record, err error) {
	now := time.Since(l.began)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.fault(fmt.Errorf("produce: %w", err))
		return
	}
	n, sent, _ := l.head(r)
	l.acked[n] = placeOf(r)
	l.ackedN++
	if sent >= l.from {
		_ = l.latencies.Publish.RecordValue((now - sent).Microseconds()) // within the range
		l.measured++
		l.bytes += int64(len(r.Value))
	}
}

// read takes what a consumer found, all at one moment.
func (l *ledger) read(fetches kgo.Fetches) {
	now := time.Since(l.began)
	l.mu.Lock()
	defer l.mu.Unlock()
	fetches.EachRecord(func(r *kgo.Record) {
		n, sent, ok := l.head(r)
		switch {
		case !ok:
			l.fault(fmt.Errorf("%w: %v holds what was never sent", errRecords, placeOf(r)))
			return
		case l.seen[n] != 0:
			l.fault(fmt.Errorf("%w: record %d at %v and %v", errRecords, n, l.seen[n], placeOf(r)))
			return
		}
		l.seen[n] = placeOf(r)
		l.seenN++
		if sent >= l.from {
			_ = l.latencies.EndToEnd.RecordValue((now - sent).Microseconds())
		}
	})
}

// maxFaults bounds the faults that are kept.
const maxFaults = 5

func (l *ledger) fault(err error) {
	if len(l.faults) < maxFaults {
		l.faults = append(l.faults, err)
	}
}

// complete tells whether the consumer has found as many records as were acknowledged, or something is wrong.
func (l *ledger) complete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seenN >= l.ackedN || len(l.faults) > 0
}

// check compares what producers were told with what the consumer found.
func (l *ledger) check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := range l.acked {
		if l.acked[n] == 0 || l.acked[n] != l.seen[n] {
			l.fault(fmt.Errorf("%w: record %d was acknowledged at %v and read at %v", errRecords, n, l.acked[n], l.seen[n]))
		}
	}
	return errors.Join(l.faults...)
}

// quantiles of what was measured.
func (l *ledger) quantiles() (produce, endToEnd Quantiles) {
	l.mu.Lock()
	defer l.mu.Unlock()
	micros := func(v int64) time.Duration { return time.Duration(v) * time.Microsecond }
	p, e := l.latencies.Publish, l.latencies.EndToEnd
	return Quantiles{micros(p.ValueAtQuantile(50)), micros(p.ValueAtQuantile(99))},
		Quantiles{micros(e.ValueAtQuantile(50)), micros(e.ValueAtQuantile(99))}
}
