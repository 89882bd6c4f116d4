package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/session"
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
// the bytes that the partition has in the object store, and the sum over nodes is the bytes stored. A partition that the request names
// several times is answered once (KafkaApis.handleDescribeLogDirsRequest).

// logDir is the name of the one directory that every node shows.
const logDir = "object-store"

func (c *call) describeLogDirs(ctx context.Context, in *kmsg.DescribeLogDirsRequest) (*kmsg.DescribeLogDirsResponse, error) {
	out := kmsg.NewPtrDescribeLogDirsResponse()
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir, dir.TotalBytes, dir.UsableBytes = logDir, -1, -1
	dir.Topics = []kmsg.DescribeLogDirsResponseDirTopic{}
	err := c.read(func(s *metadata.State) error {
		view := viewOf(s, c.forward)
		size := session.AnswerOf(ctx)
		add := func(t *metadata.Topic, asked func(partition int32) bool) error {
			sizes := c.partitionSizes(s, &view, t, asked)
			if len(sizes) == 0 {
				return nil
			}
			dt := kmsg.NewDescribeLogDirsResponseDirTopic()
			dt.Topic, dt.Partitions = t.Name, sizes
			dir.Topics = append(dir.Topics, dt)
			return size.Add(len(t.Name) + len(sizes)*minLogDirPartition)
		}
		if in.Topics == nil {
			for t := range s.Topics() {
				if err := add(t, func(int32) bool { return true }); err != nil {
					return err
				}
			}
			return nil
		}
		names, wanted := askedPartitions(in)
		for _, name := range names {
			if t, ok := s.TopicByName(name); ok {
				if err := add(t, func(partition int32) bool { return wanted[name][partition] }); err != nil {
					return err
				}
			}
		}
		return nil
	})
	out.Dirs = append(out.Dirs, dir)
	return out, err
}

// minLogDirPartition is the minimum size of a partition in an answer, in bytes.
const minLogDirPartition = 21

// askedPartitions returns the topics in the request's order, each once, and their partitions.
func askedPartitions(in *kmsg.DescribeLogDirsRequest) (names []string, wanted map[string]map[int32]bool) {
	wanted = map[string]map[int32]bool{}
	for _, t := range in.Topics {
		if wanted[t.Topic] == nil {
			names, wanted[t.Topic] = append(names, t.Topic), map[int32]bool{}
		}
		for _, p := range t.Partitions {
			wanted[t.Topic][p] = true
		}
	}
	return names, wanted
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
