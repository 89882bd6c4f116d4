package owner

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
)

// TestAdmitCommit_Concurrent: commits come at the same time, each of 0.7 of the room. Each computes its share before another one has reserved its
// growth, so the share is below slowFrom, and all but one find no room. No delay is negative.
func TestAdmitCommit_Concurrent(t *testing.T) {
	for range 20 {
		concurrentCommits(t)
	}
}

func concurrentCommits(t *testing.T) {
	t.Helper()
	var b commit.Builder
	b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: 1}, Bytes: 100})
	for i := range 1000 {
		b.Section(commit.Section{Partition: id.TopicPartition{Topic: id.Topic{1}, Partition: int32(i)}})
		b.Batch(commit.Batch{Records: 1, Bytes: 61, ProducerID: 1})
	}
	c := &metadata.CommitBundle{Encoded: b.AppendTo(nil)}
	l, _, err := memlog.New().Open("a", metalog.Config{})
	require.NoError(t, err)
	tenure, err := l.Acquire(t.Context(), metalog.Candidate{Replica: "a"})
	require.NoError(t, err)
	o, err := New(Config{Tenure: tenure, State: metadata.New(), MaxBytes: metadata.GrowthOf(c).Bytes * 10 / 7, MaxDelay: time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, tenure.Resign(context.Background())) }()

	o.queue.mu.Lock() // another caller has it
	var all sync.WaitGroup
	outcomes := make(chan string, 16)
	for range 8 {
		all.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					outcomes <- fmt.Sprint("panic: ", r)
				}
			}()
			_, err := o.Enqueue(context.Background(), c)
			outcomes <- fmt.Sprint(err)
		})
	}
	time.Sleep(20 * time.Millisecond) // sleeps: all come to wait for the mutex
	for range 5 {                     // the woken one finds the mutex locked again, so the mutex is handed over in turn
		o.queue.mu.Unlock()
		o.queue.mu.Lock()
		time.Sleep(5 * time.Millisecond) // sleeps: the woken one runs
	}
	o.queue.mu.Unlock()
	all.Wait()
	close(outcomes)
	for outcome := range outcomes {
		require.NotContains(t, outcome, "panic")
	}
}
