package stock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/internal/ledger"
)

// reading bounds reading a topic again.
const reading = 3 * time.Minute

// stream is one writer's records in one partition.
type stream struct {
	writer    string
	partition int32
}

// Sent is what was written, by the producers' word: how many records of each writer and partition, and at which offsets.
type Sent struct {
	ledger *ledger.Ledger
	counts map[stream]int
}

// NewSent returns an empty Sent.
func NewSent() *Sent { return &Sent{ledger: ledger.New(), counts: make(map[stream]int)} }

// Add takes the word of one producer that has finished. Every record must have been acknowledged: producers are idempotent and patient.
func (s *Sent) Add(t testing.TB, writer string, m Marks) {
	t.Helper()
	require.Empty(t, m.Failures, writer)
	for p, offsets := range m.Offsets {
		w := ledger.Writer{Name: writer, Partition: int32(p)}
		for seq, offset := range offsets {
			require.NotEqualValues(t, -1, offset, "%s/%d/%d was not acknowledged", writer, p, seq)
			n, _ := s.ledger.Send(w)
			s.ledger.Ack(w, n, offset)
		}
		s.counts[stream{writer, int32(p)}] = len(offsets)
	}
}

// Stored reads the topic and compares it with what was written: every record once, in order, at its offset.
func (s *Sent) Stored(ctx context.Context, topic string, options ...kgo.Opt) error {
	ctx, cancel := context.WithTimeout(ctx, reading)
	defer cancel()
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	listed, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err = errors.Join(err, listed.Error()); err != nil {
		return err
	}
	ends := make(map[int32]int64)
	listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	reads, err := ledger.ReadAll(ctx, topic, ends, options...)
	if err != nil {
		return err
	}
	if faults := s.ledger.Check(reads, ledger.Rules{}); len(faults) > 0 {
		return fmt.Errorf("%d faults: %s", len(faults), strings.Join(faults, "; "))
	}
	if acked := s.ledger.Acked(); len(reads) != acked { // everything sent was acknowledged
		return fmt.Errorf("%d records are stored, %d were acknowledged", len(reads), acked)
	}
	return nil
}

// Total returns how many records were written.
func (s *Sent) Total() (n int) {
	for _, c := range s.counts {
		n += c
	}
	return n
}

// Faults describes where the runs of a group's members, taken together, are not every writer's records once, from the first to
// the last; again allows records to be read more than once.
func (s *Sent) Faults(runs []Run, again bool) (faults []string) {
	slices.SortFunc(runs, func(a, b Run) int {
		return cmp.Or(cmp.Compare(a.Writer, b.Writer), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.First, b.First))
	})
	next := make(map[stream]int)
	for _, r := range runs {
		of := stream{r.Writer, r.Partition}
		if r.First > next[of] || r.First < next[of] && !again {
			faults = append(faults, fmt.Sprintf("%s/%d: read on at %d where %d was to come", r.Writer, r.Partition, r.First, next[of]))
		}
		next[of] = max(next[of], r.Next)
	}
	for of, n := range s.counts {
		if next[of] != n {
			faults = append(faults, fmt.Sprintf("%s/%d: %d records of %d read", of.writer, of.partition, next[of], n))
		}
	}
	return faults
}
