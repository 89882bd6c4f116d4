package writer_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/slab"
	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
)

// nullBucket takes objects and keeps nothing.
type nullBucket struct{ *mem.Bucket }

func (nullBucket) Put(context.Context, string, objstore.Body) error { return nil }

// cpu is the process's CPU time so far.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkWriter takes batches of 32 partitions from 16 connections with 5 requests in flight each, to a store that
// answers at once, and reports CPU seconds per GiB. Commits are applied to a real state, without its log.
func BenchmarkWriter(b *testing.B) {
	for _, size := range []int{100_000, 16 << 10, 1 << 10, 300} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			seq := &sequencer{state: metadata.New(), changed: make(chan struct{})}
			seq.apply(b, &metadata.CreateTopic{ID: topic, Name: "t", Partitions: 64})
			pool, err := slab.NewPool(slab.Config{Budget: 256 << 20}, nil)
			require.NoError(b, err)
			w, err := writer.New(writer.Config{Pool: pool, Bucket: nullBucket{mem.New()}, Committer: seq, Sink: dropping{}, PutRate: 1e6, PutBurst: 1e6}, nil)
			require.NoError(b, err)
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error)
			go func() { ended <- w.Run(ctx) }()
			w.OnWelcome(seq.open(b, "i"))
			one := plain(0, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			runtime.GC()
			began := cpu(b)
			b.ResetTimer()
			const connections, inFlight = 16, 20
			var all sync.WaitGroup
			for c := range connections {
				all.Go(func() {
					var waiting []*writer.Produce
					for i := c; i < b.N; i += connections {
						batch := one
						batch.Partition.Partition = int32(i % 32)
						waiting = append(waiting, w.Add(ctx, []writer.Batch{batch}))
						if len(waiting) == inFlight*max(1, 100_000/size) {
							for _, p := range waiting {
								p.Wait(ctx)
							}
							waiting = waiting[:0]
						}
					}
				})
			}
			all.Wait()
			b.StopTimer()
			gib := float64(b.N) * float64(size) / (1 << 30)
			b.ReportMetric((cpu(b)-began).Seconds()/gib, "cpu-s/GiB")
			cancel()
			require.NoError(b, <-ended)
		})
	}
}

// dropping is a sink that keeps nothing.
type dropping struct{}

func (dropping) OnCommitted(*writer.Committed) {}
