package view

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/view/viewtest"
	"github.com/freshet-io/freshet/metadata/id"
)

// BenchmarkPartitions_Plan plans a fetch of a thousand partitions at the live edge, and one of as many far behind it.
func BenchmarkPartitions_Plan(b *testing.B) {
	const partitions, extents = 1000, 200
	for name, offset := range map[string]int64{"live": extents - 1, "behind": 10} {
		b.Run(name, func(b *testing.B) {
			o := viewtest.NewOwner()
			o.CreateTopic(topicA, "a", partitions)
			wants, plans := make([]Want, partitions), make([]Plan, partitions)
			for i := range wants {
				wants[i] = Want{Partition: id.TopicPartition{Topic: topicA, Partition: int32(i)}, Offset: offset, Committed: true}
				for n := range uint64(extents) {
					o.Commit(wants[i].Partition, ext(n+1, 1))
				}
			}
			p, _ := open(b, o, Config{})
			for range 2 { // the second goes behind the windows
				require.NoError(b, p.Plan(b.Context(), wants, plans))
			}
			before := lookups(o)
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Plan(b.Context(), wants, plans); err != nil {
					b.Fatal(err)
				}
			}
			require.Equal(b, before, lookups(o), "planned from what is known")
			require.Equal(b, offset, plans[0].Extents[0].Base)
		})
	}
}
