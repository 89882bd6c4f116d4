package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata"
)

// AlterReplicaLogDirs, key 34, versions 1-2 (KIP-113).
//
//	2  is flexible
//
// Every node has the one directory that DescribeLogDirs shows. Moving a partition there is done already; any other
// directory does not exist.

func (c *call) alterReplicaLogDirs(_ context.Context, in *kmsg.AlterReplicaLogDirsRequest) (*kmsg.AlterReplicaLogDirsResponse, error) {
	out := kmsg.NewPtrAlterReplicaLogDirsResponse()
	places := map[string]int{} // of topics in the answer
	err := c.read(func(s *metadata.State) error {
		for _, dir := range in.Dirs {
			for _, t := range dir.Topics {
				at, ok := places[t.Topic]
				if !ok {
					at = len(out.Topics)
					places[t.Topic] = at
					answer := kmsg.NewAlterReplicaLogDirsResponseTopic()
					answer.Topic = t.Topic
					out.Topics = append(out.Topics, answer)
				}
				topic, _ := s.TopicByName(t.Topic)
				for _, partition := range t.Partitions {
					p := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
					p.Partition, p.ErrorCode = partition, moved(dir.Dir, topic, partition).code()
					out.Topics[at].Partitions = append(out.Topics[at].Partitions, p)
				}
			}
		}
		return nil
	})
	return out, err
}

func moved(dir string, topic *metadata.Topic, partition int32) *apiError {
	switch {
	case dir != logDir:
		return plain(kerr.LogDirNotFound)
	case topic == nil || partition < 0 || partition >= topic.Partitions:
		return plain(kerr.UnknownTopicOrPartition)
	}
	return nil
}
