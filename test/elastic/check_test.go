package elastic

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/internal/ledger"
)

// stream is one writer's records in one partition.
type stream struct {
	writer    string
	partition int32
}

// sent is what was written, by the producers' word: how many records of each stream, and where they are.
type sent struct {
	ledger *ledger.Ledger
	counts map[stream]int
}

// add takes one producer's word. Every record must have been acknowledged: the producers are idempotent and patient.
func (s *sent) add(t testing.TB, writer string, m marks) {
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

// stored compares what is in the topic with what was written.
func (s *sent) stored(t testing.TB, client *kgo.Client, topic string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), finishing)
	defer cancel()
	listed, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	require.NoError(t, err)
	require.NoError(t, listed.Error())
	ends := make(map[int32]int64)
	listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	reads, err := ledger.ReadAll(ctx, topic, ends, kgo.SeedBrokers(client.OptValue(kgo.SeedBrokers).([]string)...))
	require.NoError(t, err)
	require.Empty(t, s.ledger.Check(reads, ledger.Rules{}))
	require.Len(t, reads, s.ledger.Acked(), "everything sent was acknowledged, so everything is there")
}

// total is how many records were written.
func (s *sent) total() (n int) {
	for _, c := range s.counts {
		n += c
	}
	return n
}

// faults says where the runs of a group's members, taken together, are not each stream once from its first record to its
// last; again allows what was read already to be read again.
func (s *sent) faults(runs []run, again bool) (faults []string) {
	slices.SortFunc(runs, func(a, b run) int {
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

// TestFaults: each fault that a group could show is found.
func TestFaults(t *testing.T) {
	s := &sent{counts: map[stream]int{{"w", 0}: 10, {"w", 1}: 5}}
	whole := []run{{"w", 0, 0, 10}, {"w", 1, 0, 5}}
	for name, c := range map[string]struct {
		runs   []run
		again  bool
		faulty bool
	}{
		"whole":                {whole, false, false},
		"handed over":          {[]run{{"w", 0, 4, 10}, {"w", 1, 0, 5}, {"w", 0, 0, 4}}, false, false},
		"not to the end":       {[]run{{"w", 0, 0, 9}, {"w", 1, 0, 5}}, true, true},
		"a partition not read": {whole[:1], true, true},
		"a hole":               {[]run{{"w", 0, 0, 4}, {"w", 0, 5, 10}, {"w", 1, 0, 5}}, true, true},
		"twice":                {[]run{{"w", 0, 0, 6}, {"w", 0, 4, 10}, {"w", 1, 0, 5}}, false, true},
		"twice as allowed":     {[]run{{"w", 0, 0, 6}, {"w", 0, 4, 10}, {"w", 1, 0, 5}}, true, false},
		"not from the start":   {[]run{{"w", 0, 1, 10}, {"w", 1, 0, 5}}, true, true},
	} {
		require.Equal(t, c.faulty, len(s.faults(slices.Clone(c.runs), c.again)) > 0, name)
	}
}
