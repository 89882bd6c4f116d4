package logsoak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/internal/wait"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
)

// Sizes of the load.
const (
	bulkBatches    = 12_000 // of the repeated commit: some 120 KiB, so that two share a log entry
	partitions     = 16
	smallBatches   = 16 // per partition and new commit
	batchRecords   = 10
	batchBytes     = 10 << 10
	maxOutstanding = 128 // bulk commits not answered
	fullPause      = 100 * time.Millisecond
	paceStep       = 5 * time.Millisecond
	maxDebt        = 250 * time.Millisecond // of bytes not handed in when the log could not take them
)

// load commits in an agent's place.
type load struct {
	own     *owner.Owner
	rate    int64
	session id.Session
	topic   id.Topic
	bulk    []byte // encoded, submission 1

	mu     sync.Mutex
	counts counts // since the last take
}

// counts are what happened since the last look.
type counts struct {
	commits, refused int
	longest          time.Duration
}

// newLoad makes topic and session and commits the bulk for the first time.
func newLoad(ctx context.Context, own *owner.Owner, rate int64) (*load, error) {
	l := &load{own: own, rate: rate, topic: id.Topic{1}}
	propose := func(cmd metadata.Command) (any, error) {
		result, _, err := own.Propose(ctx, cmd)
		return result.Value, errors.Join(err, result.Err)
	}
	if _, err := propose(&metadata.CreateTopic{ID: l.topic, Name: "soak", Partitions: partitions + 1}); err != nil {
		return nil, fmt.Errorf("create topic: %w", err)
	}
	opened, err := propose(&metadata.OpenSession{Instance: "soak"})
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	l.session = opened.(metadata.OpenSessionResult).Session
	l.bulk = l.bulkCommit()
	first, err := propose(&metadata.CommitBundle{Encoded: l.bulk})
	if err != nil {
		return nil, fmt.Errorf("first commit: %w", err)
	}
	if r := first.(*commit.Result); len(r.Sections) != 1 || r.Sections[0].Spans[0].Outcome != commit.Accepted {
		return nil, fmt.Errorf("first commit: answered %+v", r)
	}
	return l, nil
}

// bulkCommit is a full bundle of as many producers as batches: the costliest there is, in bytes of log.
func (l *load) bulkCommit() []byte {
	var b commit.Builder
	rng := rand.New(rand.NewPCG(1, 2))
	b.Reset(commit.Header{Submission: id.Submission{Session: l.session, N: 1}, Bytes: 1 << 31})
	b.Section(commit.Section{Partition: id.TopicPartition{Topic: l.topic, Partition: partitions}, Position: 16})
	for i := range bulkBatches {
		b.Batch(commit.Batch{
			Records: 1 + rng.Int32N(1000), Bytes: 1000 + rng.Int32N(100_000), ProducerID: int64(1000 + i*7),
			MaxTimestamp: 1_700_000_000_000 + rng.Int64N(1_000_000),
		})
	}
	return b.AppendTo(nil)
}

// run commits until ctx ends.
func (l *load) run(ctx context.Context) error {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	slots := make(chan struct{}, maxOutstanding)
	faults := make(chan error, 1)
	ticker := time.NewTicker(paceStep)
	defer ticker.Stop()
	waiting.Go(func() { report(faults, l.commitNew(ctx)) })
	last := time.Now()
	debt := 0.0
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-faults:
			return err
		case <-ticker.C:
		}
		now := time.Now()
		debt = min(debt+now.Sub(last).Seconds(), maxDebt.Seconds())
		last = now
		for each := float64(len(l.bulk)) / float64(l.rate); debt >= each; debt -= each {
			select {
			case slots <- struct{}{}:
			default:
				continue // the log is slower than the load
			}
			waiting.Go(func() {
				defer func() { <-slots }()
				report(faults, l.commitBulk(ctx))
			})
		}
	}
}

func report(faults chan<- error, err error) {
	if err != nil {
		select {
		case faults <- err:
		default:
		}
	}
}

// commitBulk hands the first bundle in once more: it was settled, and stays so.
func (l *load) commitBulk(ctx context.Context) error {
	result, err := l.propose(ctx, l.bulk)
	if err != nil || result == nil {
		return err
	}
	settled := result.Status == commit.Settled && result.Sections[0].Spans[0].Base == 0
	if !settled && result.Status != commit.Forgotten {
		return fmt.Errorf("repeated commit answered %+v", result)
	}
	return nil
}

// commitNew commits new batches one bundle after the other, and checks every offset it is given (I2, I3).
func (l *load) commitNew(ctx context.Context) error {
	var b commit.Builder
	for n := uint32(2); ctx.Err() == nil; {
		records := int64(n-2) * smallBatches * batchRecords // of each partition so far
		b.Reset(commit.Header{
			Submission: id.Submission{Session: l.session, N: n}, Acked: n - 1, Bytes: 16 + partitions*smallBatches*batchBytes,
		})
		for p := range partitions {
			b.Section(commit.Section{
				Partition: id.TopicPartition{Topic: l.topic, Partition: int32(p)}, Position: uint32(16 + p*smallBatches*batchBytes),
			})
			for i := range int64(smallBatches) {
				b.Batch(commit.Batch{
					Records: batchRecords, Bytes: batchBytes, MaxTimestamp: 1_700_000_000_000 + int64(n),
					ProducerID: int64(p + 1), BaseSequence: int32((records + i*batchRecords) & 0x7fffffff),
				})
			}
		}
		result, err := l.propose(ctx, b.AppendTo(nil))
		if err != nil {
			return err
		}
		if result == nil { // refused: the same again, later
			_ = wait.For(ctx, fullPause)
			continue
		}
		for p, s := range result.Sections {
			if x := s.Spans[0]; x.Outcome != commit.Accepted || x.Batches != smallBatches || x.Base != records {
				return fmt.Errorf("commit %d, partition %d: answered %+v, expected base %d", n, p, x, records)
			}
		}
		n++
		_ = wait.For(ctx, fullPause)
	}
	return nil
}

// propose gives nil for a commit that was refused because the log is full, and when ctx ended.
func (l *load) propose(ctx context.Context, encoded []byte) (*commit.Result, error) {
	began := time.Now()
	result, _, err := l.own.Propose(ctx, &metadata.CommitBundle{Encoded: encoded})
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case errors.Is(err, metalog.ErrLogFull):
		l.counts.refused++
		return nil, nil
	case err != nil && ctx.Err() != nil:
		return nil, nil
	case err != nil || result.Err != nil:
		return nil, fmt.Errorf("commit: %w", errors.Join(err, result.Err))
	}
	l.counts.commits++
	l.counts.longest = max(l.counts.longest, took)
	return result.Value.(*commit.Result), nil
}

// take gives what happened since the last take.
func (l *load) take() counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts
	l.counts = counts{}
	return c
}
