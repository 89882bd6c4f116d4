package writer_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/agent/slab"
	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var topic = id.Topic{1}

func partition(n int32) id.TopicPartition { return id.TopicPartition{Topic: topic, Partition: n} }

// sequencer settles commits on a real metadata state, as an owner does: in order of n, gapped resubmissions parked.
type sequencer struct {
	mu       sync.Mutex
	state    *metadata.State
	index    uint64
	changed  chan struct{}
	commits  []id.Submission // as they were applied
	acked    uint32          // the largest seen
	attempts int             // commits handed in
	// transit, if set, is how long a commit is on its way, by which attempt it is.
	transit func(attempt int) time.Duration
	// after, if set, is told of every result before it is answered, and may replace the answer by an error.
	after func(h commit.Header, r *commit.Result) error
}

func newSequencer(t *testing.T) *sequencer {
	t.Helper()
	q := &sequencer{state: metadata.New(), changed: make(chan struct{})}
	q.apply(t, &metadata.Bootstrap{ClusterID: "c"})
	q.apply(t, &metadata.CreateTopic{ID: topic, Name: "t", Partitions: 64})
	return q
}

func (q *sequencer) apply(tb testing.TB, c metadata.Command) any {
	tb.Helper()
	r, err := q.do(c)
	require.NoError(tb, err)
	return r
}

func (q *sequencer) do(c metadata.Command) (any, error) {
	v, _, err := q.doAndWatch(c)
	return v, err
}

// doAndWatch applies a command and gives what is closed by the next one that changes anything a gap may wait for.
func (q *sequencer) doAndWatch(c metadata.Command) (value any, changed <-chan struct{}, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.index++
	r := q.state.Apply(q.index, &metadata.Batch{Now: time.Now().UnixMilli(), Commands: []metadata.Command{c}},
		&metadata.Effects{}, nil)
	if !inVain(c, r[0].Value) {
		close(q.changed)
		q.changed = make(chan struct{})
	}
	return r[0].Value, q.changed, r[0].Err
}

// inVain tells a resubmission that took nothing: parked ones would wake each other for ever with it.
func inVain(c metadata.Command, result any) bool {
	r, ok := result.(*commit.Result)
	if !ok || !hasGap(r) || hasOutcome(r, commit.Accepted) {
		return false
	}
	h, err := commit.ParseHeader(c.(*metadata.CommitBundle).Encoded)
	return err == nil && h.Resubmit
}

func (q *sequencer) open(tb testing.TB, instance string) *api.Welcome {
	tb.Helper()
	r := q.apply(tb, &metadata.OpenSession{Instance: instance, Endpoints: []metadata.Endpoint{{Host: "h", Port: 1}}})
	return &api.Welcome{Session: uint32(r.(metadata.OpenSessionResult).Session), BundlePrefix: "vc/", NextN: 1}
}

// await waits until the state passes test, or a change may have made it so; false when ctx ended.
func (q *sequencer) await(ctx context.Context, test func() bool) bool {
	for {
		q.mu.Lock()
		ok, changed := test(), q.changed
		q.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func (q *sequencer) inOrder(sub id.Submission) func() bool {
	return func() bool {
		info, ok := q.state.Session(sub.Session)
		return !ok || info.Closed || sub.N <= info.NextN
	}
}

func (q *sequencer) Commit(ctx context.Context, encoded []byte, until time.Time) (*commit.Result, error) {
	h, err := commit.ParseHeader(encoded)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", client.ErrInvalid, err)
	}
	if !h.Resubmit && !q.await(ctx, q.inOrder(h.Submission)) {
		return nil, client.ErrUnavailable
	}
	q.mu.Lock()
	transit, attempt := q.transit, q.attempts
	q.attempts++
	q.mu.Unlock()
	if transit != nil {
		time.Sleep(transit(attempt))
	}
	if !until.IsZero() && time.Now().After(until) {
		return nil, client.ErrLate
	}
	q.mu.Lock()
	q.commits = append(q.commits, h.Submission)
	q.acked = max(q.acked, h.Acked)
	after := q.after
	q.mu.Unlock()
	r, err := q.settle(ctx, h, &metadata.CommitBundle{Encoded: bytes.Clone(encoded)})
	if err == nil && after != nil {
		err = after(h, r)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// settle applies the commit; a resubmission again and again until nothing of it is a gap, or 10 s are over.
func (q *sequencer) settle(ctx context.Context, h commit.Header, c metadata.Command) (*commit.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		v, changed, err := q.doAndWatch(c)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", client.ErrInvalid, err)
		}
		r := v.(*commit.Result)
		if r.Status == commit.SessionClosed {
			return nil, client.ErrSessionClosed
		}
		if !h.Resubmit || !hasGap(r) {
			return r, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return r, nil
		}
	}
}

func hasGap(r *commit.Result) bool { return hasOutcome(r, commit.Gap) }

func hasOutcome(r *commit.Result, o commit.Outcome) bool {
	return slices.ContainsFunc(r.Sections, func(s commit.SectionResult) bool {
		return slices.ContainsFunc(s.Spans, func(s commit.Span) bool { return s.Outcome == o })
	})
}

func (q *sequencer) Abandon(ctx context.Context, sub id.Submission) (*commit.Result, error) {
	if !q.await(ctx, q.inOrder(sub)) {
		return nil, client.ErrUnavailable
	}
	v, err := q.do(&metadata.AbandonSubmission{Submission: sub})
	if err != nil {
		return nil, err
	}
	return v.(*commit.Result), nil
}

func (q *sequencer) applied() []id.Submission {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.commits)
}

// bucket is a bucket in memory whose puts can be made to fail.
type bucket struct {
	*mem.Bucket
	mu   sync.Mutex
	puts int
	// before and after, if set, stand in the way of the k-th put's attempt, counting from 1. An error of before means
	// that nothing is stored, one of after that the answer is lost.
	before, after func(ctx context.Context, k int) error
}

func newBucket() *bucket { return &bucket{Bucket: mem.New()} }

func (b *bucket) Put(ctx context.Context, key string, body objstore.Body) error {
	b.mu.Lock()
	b.puts++
	k, before, after := b.puts, b.before, b.after
	b.mu.Unlock()
	if before != nil {
		if err := before(ctx, k); err != nil {
			return err
		}
	}
	if err := b.Bucket.Put(ctx, key, body); err != nil {
		return err
	}
	if after != nil {
		return after(ctx, k)
	}
	return nil
}

func (b *bucket) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.puts
}

// delay is a before that makes the k-th put wait.
func delay(k int, d time.Duration) func(context.Context, int) error {
	return func(ctx context.Context, put int) error {
		if put != k {
			return nil
		}
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sink keeps every bundle that is handed over.
type sink struct {
	mu   sync.Mutex
	kept map[id.Bundle]*writer.Committed
}

func (s *sink) OnCommitted(c *writer.Committed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept[c.ID] != nil {
		panic("handed over twice")
	}
	c.Retain()
	s.kept[c.ID] = c
}

func (s *sink) get(b id.Bundle) *writer.Committed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept[b]
}

func (s *sink) releaseAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.kept {
		c.Release()
	}
	clear(s.kept)
}

// rig is one writer between a faulty bucket and an in-memory sequencer.
type rig struct {
	*writer.Writer
	t      *testing.T
	seq    *sequencer
	bucket *bucket
	pool   *slab.Pool
	sink   *sink
	reg    *prometheus.Registry
	stop   func()
}

const testSlab = 64 << 10

// newRig starts a writer with an open session. change may alter its configuration.
func newRig(t *testing.T, change func(*writer.Config)) *rig {
	t.Helper()
	r := newIdleRig(t, change)
	r.OnWelcome(r.seq.open(t, "first"))
	return r
}

// newIdleRig starts a writer without a session.
func newIdleRig(t *testing.T, change func(*writer.Config)) *rig {
	t.Helper()
	r := &rig{
		t: t, seq: newSequencer(t), bucket: newBucket(), reg: prometheus.NewPedanticRegistry(),
		sink: &sink{kept: map[id.Bundle]*writer.Committed{}},
	}
	var err error
	r.pool, err = slab.NewPool(slab.Config{Budget: 64 << 20, SlabBytes: testSlab, Poison: true}, nil)
	require.NoError(t, err)
	cfg := writer.Config{Pool: r.pool, Bucket: r.bucket, Committer: r.seq, Sink: r.sink}
	if change != nil {
		change(&cfg)
	}
	r.pool = cfg.Pool
	r.Writer, err = writer.New(cfg, r.reg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(func() {
		r.stop()
		r.sink.releaseAll()
		require.Zero(t, r.pool.Held(), "all memory is given back")
	})
	return r
}

// produce builds a batch of so many bytes and one record per hundred bytes; seq < 0 means no producer.
func produce(p int32, size int, producer int64, seq int32) writer.Batch {
	records := int32(max(size/100, 1))
	return batchOf(p, size, records, producer, seq)
}

func batchOf(p int32, size int, records int32, producer int64, seq int32) writer.Batch {
	b := make(kafkaproto.RecordBatch, size)
	for i := kafkaproto.BatchOverhead; i < size; i++ {
		b[i] = byte(rand.Uint32())
	}
	binary.BigEndian.PutUint32(b[8:], uint32(size-12))
	binary.BigEndian.PutUint32(b[12:], 7) // some leader epoch
	b[16] = 2
	binary.BigEndian.PutUint32(b[23:], uint32(records-1))
	binary.BigEndian.PutUint64(b[35:], 1000)
	binary.BigEndian.PutUint64(b[43:], uint64(producer))
	binary.BigEndian.PutUint32(b[53:], uint32(seq))
	binary.BigEndian.PutUint32(b[57:], uint32(records))
	binary.BigEndian.PutUint32(b[17:], b.ComputeCRC())
	return writer.Batch{Partition: partition(p), Bytes: b, Commit: commit.Batch{
		Records: records, Bytes: int32(size), MaxTimestamp: 1000, ProducerID: producer, BaseSequence: seq,
	}}
}

func plain(p int32, size int) writer.Batch { return produce(p, size, commit.NoProducer, -1) }

// add hands one batch in, in memory that is overwritten at once.
func (r *rig) add(b writer.Batch) *writer.Produce {
	frame := bytes.Clone(b.Bytes)
	b.Bytes = frame
	p := r.Add(context.Background(), []writer.Batch{b})
	for i := range frame {
		frame[i] = 0xEE
	}
	return p
}

// result waits for the one batch's result.
func (r *rig) result(p *writer.Produce) writer.Result {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	return p.Wait(ctx)[0]
}

func (r *rig) accepted(p *writer.Produce) int64 {
	r.t.Helper()
	got := r.result(p)
	require.NoError(r.t, got.Err)
	require.Equal(r.t, commit.Accepted, got.Outcome)
	return got.Base
}

// stored reads a partition's committed bytes by its extents from the object store, patched as readers do.
func (r *rig) stored(p int32) []byte {
	r.t.Helper()
	var all []byte
	for _, x := range r.extents(p) {
		rd, err := r.bucket.Get(context.Background(), bundle.Key("vc/", x.Bundle), int64(x.Position), int64(x.Length))
		require.NoError(r.t, err)
		data, err := io.ReadAll(rd)
		require.NoError(r.t, err)
		base := x.Base
		for b, err := range kafkaproto.Batches(data) {
			require.NoError(r.t, err)
			require.EqualValues(r.t, 0, b.BaseOffset(), "the object holds what was sent")
			require.Equal(r.t, b.CRC(), b.ComputeCRC())
			b.SetBaseOffset(base)
			b.SetPartitionLeaderEpoch(kafkaproto.LogEpoch)
			base += int64(b.LastOffsetDelta()) + 1
		}
		require.Equal(r.t, x.Last+1, base)
		all = append(all, data...)
	}
	return all
}

// want is the batches as readers should see them, offsets counting from 0.
func want(batches ...writer.Batch) []byte {
	var all []byte
	var base int64
	for _, b := range batches {
		c := kafkaproto.RecordBatch(bytes.Clone(b.Bytes))
		c.SetBaseOffset(base)
		c.SetPartitionLeaderEpoch(kafkaproto.LogEpoch)
		base += int64(b.Commit.Records)
		all = append(all, c...)
	}
	return all
}

// checkMemory: what was handed over is what readers would read from the object store.
func (r *rig) checkMemory(p int32) {
	r.t.Helper()
	synctest.Wait()
	var all []byte
	for _, x := range r.extents(p) {
		c := r.sink.get(x.Bundle)
		require.NotNil(r.t, c, "bundle %v was handed over", x.Bundle)
		parts, ok := c.Slices(nil, x.Position, x.Length)
		require.True(r.t, ok)
		all = append(all, slices.Concat(parts...)...)
	}
	require.True(r.t, bytes.Equal(r.stored(p), all), "memory and object store agree")
}

func (r *rig) extents(p int32) []extentOf {
	r.seq.mu.Lock()
	defer r.seq.mu.Unlock()
	x, more := r.seq.state.Extents(partition(p), 0, 10000, 1<<40)
	require.False(r.t, more)
	return x
}

// checkObjects inspects every object in the bucket.
func (r *rig) checkObjects() {
	r.t.Helper()
	infos, err := r.bucket.List(context.Background(), "", "", 1000)
	require.NoError(r.t, err)
	for _, info := range infos {
		rd, err := r.bucket.Get(context.Background(), info.Key, 0, -1)
		require.NoError(r.t, err)
		data, err := io.ReadAll(rd)
		require.NoError(r.t, err)
		_, err = bundle.Inspect(bytes.NewReader(data), int64(len(data)))
		require.NoError(r.t, err, info.Key)
	}
}

var errPermission = errors.New("access denied")

func objectKey(session id.Session, n uint32) string {
	return bundle.Key("vc/", id.Submission{Session: session, N: n}.Bundle())
}
