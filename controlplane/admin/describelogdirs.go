package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/assign"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// DescribeLogDirs, key 35, versions 1-5.
//
//	2  is flexible
//	3  has a top-level error
//	4  answers volume sizes (KIP-827); an object store has none, so -1
//	5  answers whether a directory is cordoned
//
// Tools ask every broker and add up. So each node answers for the partitions that it leads in the client's view, with
// the bytes that the partition has in the object store, and the sum over nodes is what is stored.

// logDir is the name of the one directory that every node shows.
const logDir = "object-store"

func (c *call) describeLogDirs(_ context.Context, in *kmsg.DescribeLogDirsRequest) (*kmsg.DescribeLogDirsResponse, error) {
	out := kmsg.NewPtrDescribeLogDirsResponse()
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir, dir.TotalBytes, dir.UsableBytes = logDir, -1, -1
	dir.Topics = []kmsg.DescribeLogDirsResponseDirTopic{}
	_, err := c.owner.ReadFrozen(func(s *metadata.State) {
		view := viewOf(s, c.forward)
		add := func(t *metadata.Topic, asked func(partition int32) bool) {
			if sizes := c.partitionSizes(s, &view, t, asked); len(sizes) > 0 {
				dt := kmsg.NewDescribeLogDirsResponseDirTopic()
				dt.Topic, dt.Partitions = t.Name, sizes
				dir.Topics = append(dir.Topics, dt)
			}
		}
		if in.Topics == nil {
			for t := range s.Topics() {
				add(t, func(int32) bool { return true })
			}
			return
		}
		for _, r := range in.Topics {
			if t, ok := s.TopicByName(r.Topic); ok {
				wanted := map[int32]bool{}
				for _, p := range r.Partitions {
					wanted[p] = true
				}
				add(t, func(partition int32) bool { return wanted[partition] })
			}
		}
	})
	out.Dirs = append(out.Dirs, dir)
	return out, err
}

// partitionSizes returns the requested partitions that the node leads, or all of them if no partition has a leader.
func (c *call) partitionSizes(s *metadata.State, v *clientView, t *metadata.Topic, asked func(int32) bool) []kmsg.DescribeLogDirsResponseDirTopicPartition {
	var sizes []kmsg.DescribeLogDirsResponseDirTopicPartition
	replicas := v.replicas(t)
	for i := range t.Partitions {
		if leader := replicas.Leader(i); !asked(i) || leader != assign.NoNode && leader != c.forward.Node {
			continue
		}
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size = i, s.PartitionBytes(id.TopicPartition{Topic: t.ID, Partition: i})
		sizes = append(sizes, p)
	}
	return sizes
}
