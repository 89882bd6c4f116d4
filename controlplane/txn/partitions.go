package txn

import (
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// named is a topic with some of its partitions as a request names them.
type named struct {
	topic      string
	partitions []int32
}

// merged returns the topics in the request's order, each once with each of its partitions once.
func merged(topics []named) []named {
	type key struct {
		topic     int
		partition int32
	}
	out, places, seen := make([]named, 0, len(topics)), map[string]int{}, map[key]bool{}
	for _, t := range topics {
		at, twice := places[t.topic]
		if !twice {
			at = len(out)
			places[t.topic], out = at, append(out, named{topic: t.topic})
		}
		for _, p := range t.partitions {
			if k := (key{at, p}); !seen[k] {
				seen[k], out[at].partitions = true, append(out[at].partitions, p)
			}
		}
	}
	return out
}

// resolved has the IDs of named partitions, one entry each, in the request's order.
type resolved struct {
	ids   []id.TopicPartition
	known []bool // that the partition exists
	all   bool   // that every partition does
}

// resolve finds the partitions that a request names, as of now.
func (c *Coordinator) resolve(topics []named) (r resolved, err error) {
	r.all = true
	_, err = c.owner.Read(func(s *metadata.State) {
		for _, t := range topics {
			topic, found := s.TopicByName(t.topic)
			for _, p := range t.partitions {
				exists := found && p >= 0 && p < topic.Partitions
				tp := id.TopicPartition{Partition: p}
				if exists {
					tp.Topic = topic.ID
				}
				r.ids = append(r.ids, tp)
				r.known = append(r.known, exists)
				r.all = r.all && exists
			}
		}
	})
	return r, err
}
