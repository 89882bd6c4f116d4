package metadata

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// load makes commits of idempotent producers spread over topics, partitions and producers. Producer i writes to
// partition i modulo their number, its batches in sequence.
type load struct {
	partitions, producers int
	sections, batches     int // per commit, per section
	next                  []int32
	at                    int
	n                     uint32
	rng                   *rand.Rand
	builder               commit.Builder
}

const (
	benchTopics          = 20
	benchFirstProducerID = 10_000
)

func newLoad(partitions, producers, sections, batches int) *load {
	return &load{
		partitions: partitions, producers: producers, sections: sections, batches: batches,
		next: make([]int32, producers), rng: rand.New(rand.NewPCG(1, 2)), n: 1,
	}
}

func (l *load) topic(i int) id.Topic { return topicID(fmt.Sprintf("topic-%d", i)) }

// state gives a state with the topics and one session.
func (l *load) state() *machine {
	s := newMachine()
	var cmds []Command
	for i := range benchTopics {
		cmds = append(cmds, &CreateTopic{
			ID: l.topic(i), Name: fmt.Sprint(i), Partitions: int32((l.partitions + benchTopics - 1) / benchTopics),
		})
	}
	cmds = append(cmds, &OpenSession{Instance: "a"})
	s.Apply(1, &Batch{Now: 1_700_000_000_000, Commands: cmds}, nil, nil)
	return s
}

// commit encodes the next commit. Partitions take turns, and in each its producers do.
func (l *load) commit() []byte {
	l.builder.Reset(commit.Header{
		Submission: id.Submission{Session: 1, N: l.n}, Acked: l.n - 1, Bytes: 1 << 31,
	})
	l.n++
	position := uint32(16)
	for range l.sections {
		p := l.at * 7919 % l.partitions // scattered, each as often
		l.builder.Section(commit.Section{
			Partition: id.TopicPartition{Topic: l.topic(p % benchTopics), Partition: int32(p / benchTopics)}, Position: position,
		})
		for j := range l.batches {
			producer := p + l.partitions*((l.at/l.partitions*l.batches+j)%(l.producers/l.partitions))
			b := commit.Batch{
				Records: 20 + l.rng.Int32N(80), Bytes: 2000 + l.rng.Int32N(10_000),
				MaxTimestamp: 1_700_000_000_000 + int64(l.n)*10 + l.rng.Int64N(500),
				ProducerID:   int64(benchFirstProducerID + producer), BaseSequence: l.next[producer],
			}
			l.next[producer] = commit.NextSequence(b.BaseSequence, b.Records)
			l.builder.Batch(b)
			position += uint32(b.Bytes)
		}
		l.at++
	}
	return l.builder.AppendTo(nil)
}

// benchmarkApply measures decoding and applying of prepared log entries, one commit each.
func benchmarkApply(b *testing.B, sections, batches int) {
	l := newLoad(10_000, 100_000, sections, batches)
	s := l.state()
	index := uint64(1)
	run := func(encoded []byte) {
		index++
		batch, err := ParseBatch(encoded)
		if err != nil {
			b.Fatal(err)
		}
		var fx Effects
		var results [1]Result
		r := s.Apply(index, batch, &fx, results[:0])[0]
		if r.Err != nil {
			b.Fatal(r.Err)
		}
		for _, section := range r.Value.(*commit.Result).Sections {
			if x := section.Spans[0]; x.Outcome != commit.Accepted || x.Batches != uint32(batches) {
				b.Fatalf("%+v", section)
			}
		}
	}
	entry := func() []byte {
		return AppendBatch(nil, &Batch{Now: 1_700_000_000_000 + int64(index), Commands: []Command{&CommitBundle{Encoded: l.commit()}}})
	}
	for range 100_000 / (sections * batches) {
		run(entry())
	}
	const group = 32
	var bytes int
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += group {
		b.StopTimer()
		var entries [][]byte
		for range min(group, b.N-done) {
			entries = append(entries, entry())
			bytes += len(entries[len(entries)-1])
		}
		b.StartTimer()
		for _, e := range entries {
			run(e)
		}
	}
	b.StopTimer()
	per := float64(b.N * sections)
	b.ReportMetric(per/b.Elapsed().Seconds(), "extents/s")
	b.ReportMetric(per*float64(batches)/b.Elapsed().Seconds(), "batches/s")
	b.ReportMetric(float64(bytes)/per/float64(batches), "logB/batch")
	if got := float64(bytes) / per / float64(batches); got > 12 {
		b.Fatalf("%.1f log bytes per batch", got)
	}
}

// One idempotent batch per extent: at least 300,000 extents/s per core.
func BenchmarkApplyOneBatchPerExtent(b *testing.B) { benchmarkApply(b, 512, 1) }

// Sixteen idempotent batches per extent: at least 1,000,000 batches/s per core.
func BenchmarkApplySixteenPerExtent(b *testing.B) { benchmarkApply(b, 64, 16) }

// A state of 1 M extents and 1 M producers is encoded over and over in another goroutine, each time from a fresh
// Snapshot, while commits go on; the longest Apply (with the Snapshot before it) must stay under 20 ms. Wall time counts
// what the machine gives to others, so the longest without that, and the longest in CPU time of the thread, are reported
// beside it.
func BenchmarkSnapshotWhileCommitting(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l := newLoad(10_000, 1_000_000, 500, 1)
	s := l.state()
	index := uint64(1)
	apply := func() {
		index++
		s.Apply(index, &Batch{Now: 1_700_000_000_000, Commands: []Command{&CommitBundle{Encoded: l.commit()}}}, nil, nil)
	}
	for range 2000 {
		apply()
	}
	groups := manyOffsets(s, 10_000, 100)
	index = s.Index()
	var longest, longestOwn, longestCPU time.Duration
	encoded := make(chan struct{}, 1)
	encoded <- struct{}{}
	snapshots := 0
	b.ResetTimer()
	for range b.N {
		batch := &Batch{Now: 1_700_000_000_000, Commands: []Command{&CommitBundle{Encoded: l.commit()}, groups()}}
		startWait, startCPU, start := threadWait(), threadCPU(), time.Now()
		select {
		case <-encoded:
			snapshots++
			frozen := s.snapshot()
			go func() {
				if err := frozen.Encode(io.Discard); err != nil {
					panic(err)
				}
				encoded <- struct{}{}
			}()
		default:
		}
		index++
		s.Apply(index, batch, nil, nil)
		took := time.Since(start)
		longest, longestCPU = max(longest, took), max(longestCPU, threadCPU()-startCPU)
		longestOwn = max(longestOwn, took-(threadWait()-startWait))
	}
	b.StopTimer()
	<-encoded
	b.ReportMetric(float64(longest.Microseconds())/1000, "max-apply-ms")
	b.ReportMetric(float64(longestOwn.Microseconds())/1000, "max-apply-own-ms")
	b.ReportMetric(float64(longestCPU.Microseconds())/1000, "max-apply-cpu-ms")
	b.ReportMetric(float64(snapshots), "snapshots")
}
