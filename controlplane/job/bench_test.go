package job

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// benchState is a state whose partitions have so many extents of each level, each bundle one of every partition, and dead bytes.
func benchState(b testing.TB, partitions int32, levels [3]int, dead uint32) *metadata.State {
	b.Helper()
	s := metadata.New()
	apply := func(c metadata.Command) metadata.Result {
		r := s.Apply(s.Index()+1, &metadata.Batch{Now: 1, Commands: []metadata.Command{c}}, nil, nil)[0]
		require.NoError(b, r.Err)
		return r
	}
	topic := id.Topic{1}
	apply(&metadata.CreateTopic{ID: topic, Name: "t", Partitions: partitions})
	apply(&metadata.OpenSession{Instance: "a", Roles: metadata.RoleJobs})
	const length = 61
	size := 16 + length*uint32(partitions) + dead
	var builder commit.Builder
	for n := range uint32(levels[0] + levels[1] + levels[2]) {
		name := id.Submission{Session: 1, N: n + 1}
		builder.Reset(commit.Header{Submission: name, Bytes: size})
		for p := range partitions {
			builder.Section(commit.Section{Partition: id.TopicPartition{Topic: topic, Partition: p}, Position: uint32(16 + p*length)})
			builder.Batch(commit.Batch{Records: 1, Bytes: length, ProducerID: commit.NoProducer})
		}
		apply(&metadata.CommitBundle{Encoded: builder.AppendTo(nil)})
		level := uint8(2)
		if int(n) >= levels[2] {
			level = 1
		}
		if int(n) >= levels[2]+levels[1] {
			continue
		}
		last := id.TopicPartition{Topic: topic, Partition: partitions - 1}
		started := apply(&metadata.StartJob{
			Kind: job.Compact, Level: level, Runner: 1, First: id.TopicPartition{Topic: topic}, Last: last, Inputs: []id.Bundle{name.Bundle()},
		}).Value.(id.Session)
		o := &job.Outcome{Bundles: []job.Bundle{{N: 1, Bytes: size}}}
		for p := range partitions {
			o.Partitions = append(o.Partitions, job.Replacement{
				ID: id.TopicPartition{Topic: topic, Partition: p}, From: int64(n), To: int64(n),
				Extents: []extent.Extent{{
					Base: int64(n), Last: int64(n), Kind: extent.Absolute, Bundle: id.Submission{Session: started, N: 1}.Bundle(),
					Position: uint32(16 + p*length), Length: length, Batches: 1,
				}},
			})
		}
		apply(&metadata.CompleteJob{Job: started, Last: true, Outcome: job.AppendOutcome(nil, o)})
	}
	return s.Snapshot()
}

// everybody is connected.
type everybody struct{ Runners }

func (everybody) Connected(id.Session) bool { return true }

func noTime(context.Context) (time.Time, error) { return time.Time{}, errors.New("no time") }

// What a round costs: one that finds nothing to do, and one that plans a job of the first level.
func BenchmarkRound(b *testing.B) {
	for _, partitions := range []int32{4608, 100_000} {
		state := benchState(b, partitions, [3]int{2, 4, 8}, 0)
		for _, due := range []bool{false, true} {
			b.Run(fmt.Sprintf("partitions=%d/due=%v", partitions, due), func(b *testing.B) {
				cfg := Config{StoreTime: noTime}
				if due {
					cfg.Settings.First.Bundles = 2
				}
				p, err := New(cfg)
				require.NoError(b, err)
				t := p.Tenure(nil, everybody{})
				t.plan(context.Background(), state) // the first walks over everything
				b.ReportAllocs()
				for b.Loop() {
					if n := len(t.plan(context.Background(), state).orders); (n > 0) != due {
						b.Fatalf("%d jobs", n)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(partitions), "ns/partition")
			})
		}
	}
}

// The first round of an owner walks over all extents.
func BenchmarkRound_First(b *testing.B) {
	state := benchState(b, 4608, [3]int{2, 4, 200}, 0)
	p, err := New(Config{StoreTime: noTime})
	require.NoError(b, err)
	for b.Loop() {
		p.Tenure(nil, everybody{}).plan(context.Background(), state)
	}
	b.ReportMetric(206*4608, "extents")
}

// A walk for half-dead bundles visits all extents.
func BenchmarkReclaim(b *testing.B) {
	state := benchState(b, 4608, [3]int{0, 0, 200}, 64<<20)
	p, err := New(Config{StoreTime: noTime})
	require.NoError(b, err)
	for b.Loop() {
		if len(p.Tenure(nil, everybody{}).plan(context.Background(), state).orders) == 0 {
			b.Fatal("no job")
		}
	}
	b.ReportMetric(200*4608, "extents")
}
