package sim

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// journal is what idempotent producers know of a topic: which value stands at which offset, and which may stand somewhere.
// It says of a full read at any moment whether it is the log.
type journal struct {
	topic      string
	partitions int32
	keys       int // of a compacted topic; 0: it is not

	mu struct {
		sync.Mutex
		acked   []map[int64]string // by partition and offset
		at      map[string]int64   // value -> offset; -1 if it was sent and not answered
		seen    map[string]int64   // value without an answer -> offset at which it was read
		deleted []int64            // log starts that DeleteRecords answered
		given   int                // values given out
	}
}

func newJournal(topic string, partitions int32, keys int) *journal {
	j := &journal{topic: topic, partitions: partitions, keys: keys}
	j.mu.acked, j.mu.deleted = make([]map[int64]string, partitions), make([]int64, partitions)
	for p := range j.mu.acked {
		j.mu.acked[p] = map[int64]string{}
	}
	j.mu.at, j.mu.seen = map[string]int64{}, map[string]int64{}
	return j
}

// next gives a record to be sent. Its value ends with its key, if it has one.
func (j *journal) next(rng *rand.Rand) *kgo.Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.given++
	r := &kgo.Record{Topic: j.topic, Partition: rng.Int32N(j.partitions)}
	value := fmt.Sprintf("%d/", j.mu.given)
	if j.keys > 0 {
		r.Key = fmt.Appendf(nil, "k%d", rng.IntN(j.keys))
		value += string(r.Key)
	}
	r.Value = []byte(value)
	j.mu.at[value] = -1
	return r
}

// answered notes what became of a record. One that failed may be there.
func (j *journal) answered(r *kgo.Record, err error) {
	if err != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if r.Offset >= 0 { // -1: a duplicate that the broker no longer places
		j.mu.acked[r.Partition][r.Offset] = string(r.Value)
	}
	j.mu.at[string(r.Value)] = r.Offset
}

func (j *journal) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for _, m := range j.mu.acked {
		n += len(m)
	}
	return n
}

// moment is what a reading must show of a partition: what was known before it began.
type moment struct {
	acked      map[int64]string
	start, end int64 // the log's, as answered then; an end that is answered is not below anything acknowledged before
}

// reading is one full read of a topic through one agent.
type reading struct {
	j       *journal
	client  *kgo.Client
	moments []moment
	reads   []map[int64]*kgo.Record
}

// reread reads all of the topic as of now and gives what is wrong with it. An error says that it could not be read.
func (j *journal) reread(ctx context.Context, options ...kgo.Opt) (faults []string, err error) {
	r := &reading{j: j, moments: make([]moment, j.partitions), reads: make([]map[int64]*kgo.Record, j.partitions)}
	r.client, err = kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer r.client.Close()
	j.mu.Lock()
	for p := range r.moments {
		r.moments[p].acked = maps.Clone(j.mu.acked[p])
		r.reads[p] = map[int64]*kgo.Record{}
	}
	deleted := slices.Clone(j.mu.deleted)
	j.mu.Unlock()
	if err := r.bounds(ctx); err != nil {
		return nil, err
	}
	for p := range r.moments {
		m := &r.moments[p]
		if m.start < deleted[p] {
			faults = append(faults, fmt.Sprintf("%s/%d begins at %d, records were deleted to %d", j.topic, p, m.start, deleted[p]))
		}
		if err := r.partition(ctx, int32(p), options); err != nil {
			return faults, err
		}
	}
	starts, err := r.starts(ctx)
	if err != nil {
		return faults, err
	}
	for p := range r.moments {
		faults = append(faults, r.judge(p, max(r.moments[p].start, starts[int32(p)]))...)
	}
	return faults, nil
}

// bounds notes where each partition begins and ends.
func (r *reading) bounds(ctx context.Context) error {
	starts, err := r.starts(ctx)
	if err != nil {
		return err
	}
	listed, err := kadm.NewClient(r.client).ListEndOffsets(ctx, r.j.topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return err
	}
	for p := range r.moments {
		end, ok := listed.Lookup(r.j.topic, int32(p))
		if !ok {
			return fmt.Errorf("no end of %s/%d", r.j.topic, p)
		}
		r.moments[p].start, r.moments[p].end = starts[int32(p)], end.Offset
	}
	return nil
}

func (r *reading) starts(ctx context.Context) (map[int32]int64, error) {
	listed, err := kadm.NewClient(r.client).ListStartOffsets(ctx, r.j.topic)
	if err == nil {
		err = listed.Error()
	}
	starts := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { starts[o.Partition] = o.Offset })
	return starts, err
}

// partition reads a partition to its end of then. What is trimmed meanwhile is not waited for.
func (r *reading) partition(ctx context.Context, p int32, options []kgo.Opt) error {
	m := &r.moments[p]
	client, err := kgo.NewClient(append(slices.Clone(options), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.j.topic: {p: kgo.NewOffset().At(m.start)}}))...)
	if err != nil {
		return err
	}
	defer client.Close()
	for next := m.start; next < m.end; {
		poll, cancel := context.WithTimeout(ctx, time.Second)
		fetches := client.PollFetches(poll)
		cancel()
		if ctx.Err() != nil {
			return fmt.Errorf("read %s/%d from %d to %d: %w", r.j.topic, p, next, m.end, ctx.Err())
		}
		fetches.EachRecord(func(record *kgo.Record) {
			r.reads[p][record.Offset] = record
			next = max(next, record.Offset+1)
		})
		if fetches.Empty() {
			starts, err := r.starts(ctx)
			if err == nil {
				next = max(next, starts[p])
			}
		}
	}
	return nil
}

// judge compares a partition's records with what is known of it, from an offset on: what lies below may be gone.
func (r *reading) judge(p int, from int64) (faults []string) {
	j, m := r.j, &r.moments[p]
	j.mu.Lock()
	defer j.mu.Unlock()
	fault := func(format string, args ...any) {
		if len(faults) < 10 {
			faults = append(faults, fmt.Sprintf("%s/%d [%d, %d): ", j.topic, p, from, m.end)+fmt.Sprintf(format, args...))
		}
	}
	newest := map[string]int64{} // by key
	for offset, record := range r.reads[p] {
		j.known(p, offset, string(record.Value), fault)
		newest[string(record.Key)] = max(newest[string(record.Key)], offset)
	}
	for offset, value := range m.acked {
		if offset < from || offset >= m.end {
			continue
		}
		record := r.reads[p][offset]
		switch {
		case record != nil && string(record.Value) == value:
		case record != nil:
			fault("%d holds %q, not %q", offset, record.Value, value)
		case j.keys == 0 || newest[keyOf(value)] < offset:
			fault("%q was acknowledged at %d and is not there", value, offset)
		}
	}
	if j.keys == 0 {
		for offset := from; offset < m.end; offset++ {
			if r.reads[p][offset] == nil {
				fault("nothing at %d", offset)
			}
		}
	}
	return faults
}

// known tells whether a value may stand where it was read. Called with mu held.
func (j *journal) known(p int, offset int64, value string, fault func(string, ...any)) {
	at, sent := j.mu.at[value]
	switch {
	case !sent:
		fault("%d holds %q, which nobody sent", offset, value)
	case at >= 0 && j.mu.acked[p][offset] != value:
		fault("%d holds %q, which was acknowledged at %d", offset, value, at)
	case at < 0:
		if before, ok := j.mu.seen[value]; ok && before != offset {
			fault("%d holds %q, which was read at %d before", offset, value, before)
		}
		j.mu.seen[value] = offset
	}
}

func keyOf(value string) string {
	for i := range value {
		if value[i] == '/' {
			return value[i+1:]
		}
	}
	return ""
}

// write produces until ctx ends, then waits for what is under way.
func (j *journal) write(ctx context.Context, c *cluster, rng *rand.Rand, interval time.Duration, options []kgo.Opt) {
	client, err := kgo.NewClient(append(slices.Clone(options), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		c.t.Error(err)
		return
	}
	defer client.Close()
	for ; ctx.Err() == nil; pause(ctx, interval) {
		client.Produce(context.WithoutCancel(ctx), j.next(rng), j.answered)
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := client.Flush(flush); err != nil {
		c.t.Errorf("%s: flush: %v", j.topic, err)
	}
}

// deleteRecords deletes up to some offset of one partition.
func (j *journal) deleteRecords(ctx context.Context, client *kgo.Client, rng *rand.Rand) {
	admin := kadm.NewClient(client)
	ends, err := admin.ListEndOffsets(ctx, j.topic)
	p := rng.Int32N(j.partitions)
	end, ok := ends.Lookup(j.topic, p)
	if err != nil || !ok || end.Offset <= 0 {
		return
	}
	j.mu.Lock()
	from := j.mu.deleted[p]
	j.mu.Unlock()
	to := from + rng.Int64N(max(1, end.Offset-from))
	answers, err := admin.DeleteRecords(ctx, kadm.Offsets{j.topic: {p: {Topic: j.topic, Partition: p, At: to}}})
	if answer, ok := answers.Lookup(j.topic, p); err == nil && ok && answer.Err == nil {
		j.mu.Lock()
		j.mu.deleted[p] = max(j.mu.deleted[p], answer.LowWatermark)
		j.mu.Unlock()
	}
}

// mustBe reads all through every agent, which must be the log.
func (j *journal) mustBe(c *cluster) {
	c.t.Helper()
	for _, a := range c.agents {
		ctx, cancel := context.WithTimeout(c.t.Context(), patience)
		faults, err := j.reread(ctx, c.pinnedOptions(a)...)
		cancel()
		require.NoError(c.t, err, "%s through %s", j.topic, a.name)
		require.Empty(c.t, faults, "through %s", a.name)
	}
	c.t.Logf("%s: %d records acknowledged", j.topic, j.count())
}
