package replica_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
	"github.com/freshet-io/freshet/metadata/snapshot"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/file"
)

// history is a log that ever more commits are appended to, and the state that they make: idempotent producers, each of
// which writes to a partition of its own choice.
type history struct {
	b      *testing.B
	store  *memlog.Store
	tenure metalog.Tenure
	state  *metadata.State
	rng    *rand.Rand
	next   []int32 // sequence by producer
	at, n  int
}

const (
	restartTopics     = 20
	restartPartitions = 500 // of each topic
	restartSections   = 500 // of each commit
	restartNowMs      = 1_700_000_000_000
)

func (h *history) append(cmds ...metadata.Command) {
	h.b.Helper()
	batch := &metadata.Batch{Now: restartNowMs + int64(h.n), Commands: cmds}
	last, err := h.tenure.Append(h.b.Context(), h.state.Index()+1, metadata.AppendBatch(nil, batch))
	require.NoError(h.b, err)
	for _, r := range h.state.Apply(last, batch, nil, nil) {
		require.NoError(h.b, r.Err)
	}
}

// commits appends so many extents.
func (h *history) commits(extents int) {
	h.b.Helper()
	var builder commit.Builder
	for range extents / restartSections {
		h.n++
		name := id.Submission{Session: 1, N: uint32(h.n)}
		builder.Reset(commit.Header{Submission: name, Acked: name.N - 1, Bytes: 16 << 20})
		for i := range restartSections {
			producer := h.at % len(h.next)
			p := producer % (restartTopics * restartPartitions) * 7919 % (restartTopics * restartPartitions)
			h.at++
			builder.Section(commit.Section{Partition: id.TopicPartition{
				Topic: id.Topic{1, byte(p % restartTopics)}, Partition: int32(p / restartTopics),
			}, Position: uint32(16 + i*20_000)})
			records := 1 + h.rng.Int32N(100)
			builder.Batch(commit.Batch{
				ProducerID: int64(10_000 + producer), BaseSequence: h.next[producer], Records: records, Bytes: 1000 + h.rng.Int32N(15_000),
				MaxTimestamp: restartNowMs + int64(h.n),
			})
			h.next[producer] += records
		}
		h.append(&metadata.CommitBundle{Encoded: builder.AppendTo(nil)})
	}
}

// begin makes a log and a state of so many extents and as many producers, and its snapshot.
func (h *history) begin(bucket objstore.Bucket, extents int) metalog.SnapshotRef {
	h.b.Helper()
	log, _, err := h.store.Open("before", metalog.Config{})
	require.NoError(h.b, err)
	h.tenure, err = log.Acquire(h.b.Context(), metalog.Candidate{Replica: "before", Address: "before:1"})
	require.NoError(h.b, err)
	h.state, h.rng, h.next = metadata.New(), rand.New(rand.NewPCG(1, 2)), make([]int32, extents)
	cmds := []metadata.Command{&metadata.Bootstrap{ClusterID: "c"}, &metadata.OpenSession{Instance: "i"}}
	for i := range restartTopics {
		cmds = append(cmds, &metadata.CreateTopic{ID: id.Topic{1, byte(i)}, Name: fmt.Sprint(i), Partitions: restartPartitions})
	}
	cmds = append(cmds, &metadata.AllocateProducerIDs{Count: int32(10_000 + extents)})
	h.append(cmds...)
	h.commits(extents)
	ref, _, err := snapshot.Write(h.b.Context(), bucket, prefix, h.state)
	require.NoError(h.b, err)
	require.NoError(h.b, h.tenure.SetSnapshots(h.b.Context(), []metalog.SnapshotRef{ref}))
	require.NoError(h.b, h.tenure.Trim(h.b.Context(), ref.Index))
	return ref
}

// BenchmarkRestart starts a replica over a snapshot of a million live extents and a million producers in a file bucket, and
// a log of so many more extents behind it, until it is the owner. The metadata log is in memory.
func BenchmarkRestart(b *testing.B) {
	for _, tail := range []int{0, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("tail=%d", tail), func(b *testing.B) {
			store, bucket, _ := million(b, tail)
			var cpu time.Duration
			for b.Loop() {
				store.ExpireLeases()
				before := processCPU()
				restart(b, store, bucket)
				cpu += processCPU() - before
			}
			b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s/op")
		})
	}
}

// BenchmarkRestart_Snapshot reads and decodes the snapshot of BenchmarkRestart alone.
func BenchmarkRestart_Snapshot(b *testing.B) {
	_, bucket, ref := million(b, 0)
	b.SetBytes(ref.Bytes)
	for b.Loop() {
		_, _, err := snapshot.Read(b.Context(), bucket, ref)
		require.NoError(b, err)
	}
}

// million makes a log whose snapshot has a million extents and as many producers.
func million(b *testing.B, tail int) (*memlog.Store, objstore.Bucket, metalog.SnapshotRef) {
	b.Helper()
	bucket, err := file.Open(b.TempDir())
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, bucket.Close()) })
	h := &history{b: b, store: memlog.New()}
	ref := h.begin(bucket, 1_000_000)
	h.commits(tail)
	require.NoError(b, h.tenure.Resign(b.Context()))
	return h.store, bucket, ref
}

// restart runs a replica from its start until it is the owner; only that is timed.
func restart(b *testing.B, store *memlog.Store, bucket objstore.Bucket) {
	b.Helper()
	log, _, err := store.Open("a", metalog.Config{})
	require.NoError(b, err)
	owned := make(chan struct{})
	r, err := replica.New(replica.Config{
		Replica: "a", Address: "a:1", Log: log, Bucket: bucket, SnapshotPrefix: prefix,
		OnOwner: func(*owner.Owner) func() { close(owned); return func() {} },
	})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	select {
	case <-owned:
	case err := <-ended:
		b.Fatal("ended early:", err)
	}
	b.StopTimer()
	cancel()
	require.NoError(b, <-ended)
	b.StartTimer()
}

func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
