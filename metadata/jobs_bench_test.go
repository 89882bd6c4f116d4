package metadata

import (
	"testing"
	"time"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// BenchmarkCompleteJob applies outcomes of first-level jobs: 64 bundles with an extent of each of 4,608 partitions become
// one extent a partition, in parts of 256 partitions as runners hand them in. ms/part is how long commits wait for one.
func BenchmarkCompleteJob(b *testing.B) {
	const partitions, bundles, part = 4608, 64, 256
	var longest time.Duration
	var extents int
	for b.Loop() {
		b.StopTimer()
		l := newLoad(partitions, partitions, partitions, 1)
		s := l.state()
		var inputs []id.Bundle
		for i := range uint32(bundles) {
			s.Apply(uint64(2+i), &Batch{Now: s.now, Commands: []Command{&CommitBundle{Encoded: l.commit()}}}, nil, nil)
			inputs = append(inputs, id.Submission{Session: 1, N: 1 + i}.Bundle())
		}
		first, last := id.TopicPartition{}, id.TopicPartition{Topic: id.Topic{0xff}}
		n := s.startJob(&StartJob{Kind: job.Compact, Level: 1, Runner: 1, First: first, Last: last, Inputs: inputs}, nil).Value.(id.Session)
		s.snapshot() // each node touched is copied
		parts := benchmarkOutcome(s, n, part)
		b.StartTimer()
		for i, p := range parts {
			began := time.Now()
			r := s.completeJob(&CompleteJob{Job: n, Last: i == len(parts)-1, Outcome: p}, nil)
			longest = max(longest, time.Since(began))
			if r.Err != nil || r.Value.(JobResult).Kept > 0 {
				b.Fatal(r)
			}
		}
		extents += partitions * bundles
	}
	b.ReportMetric(float64(extents)/b.Elapsed().Seconds(), "extents/s")
	b.ReportMetric(float64(longest.Microseconds())/1000, "ms/part")
}

// benchmarkOutcome encodes an outcome that replaces all there is, in parts.
func benchmarkOutcome(s *machine, n id.Session, part int) [][]byte {
	var out [][]byte
	o := &job.Outcome{Bundles: []job.Bundle{{N: 1, Bytes: 1 << 30}}}
	flush := func() {
		if len(o.Partitions) > 0 {
			out = append(out, job.AppendOutcome(nil, o))
			o.Partitions = nil
		}
	}
	for t := range s.Topics() {
		for p := range t.Partitions {
			tp := id.TopicPartition{Topic: t.ID, Partition: p}
			w, _ := s.Watermarks(tp)
			if w.HighWatermark == 0 {
				continue
			}
			to := w.HighWatermark - 1
			o.Partitions = append(o.Partitions, job.Replacement{ID: tp, To: to, Extents: []extent.Extent{{
				Last: to, Kind: extent.Absolute, Bundle: id.Submission{Session: n, N: 1}.Bundle(), Length: 100, Batches: 1,
			}}})
			if len(o.Partitions) == part {
				flush()
			}
		}
	}
	flush()
	return out
}
