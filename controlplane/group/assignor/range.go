package assignor

import (
	"slices"
	"strings"

	"github.com/freshet-io/freshet/metadata/id"
)

// share is how one topic is cut among its subscribers: each gets quota consecutive partitions, the first extra of
// them one more.
type share struct {
	partitions, subscribers int32
	next                    int32 // first partition not yet given
	given                   int32 // subscribers served
}

func (s *share) cut() (from, to int32) {
	size := s.partitions / s.subscribers
	if s.given < s.partitions%s.subscribers {
		size++
	}
	s.given++
	from = s.next
	s.next += size
	return from, s.next
}

// assignRanges cuts every topic into runs of consecutive partitions, one for each subscriber. Static members come
// first, by instance id, then dynamic ones by member id, the same order for every topic: topics of equal partition
// counts and subscribers are co-partitioned. (RangeAssignor)
func assignRanges(g Group) Assignment {
	slices.SortStableFunc(g.Members, compareForRanges)
	shares := make(map[id.Topic]*share)
	for _, m := range g.Members {
		for _, t := range m.Topics {
			if shares[t] == nil {
				shares[t] = &share{partitions: g.Partitions[t]}
			}
			shares[t].subscribers++
		}
	}
	out := make(Assignment, len(g.Members))
	for _, m := range g.Members {
		var mine []id.TopicPartition
		for _, t := range m.Topics {
			from, to := shares[t].cut()
			for p := from; p < to; p++ {
				mine = append(mine, id.TopicPartition{Topic: t, Partition: p})
			}
		}
		out[m.ID] = mine
	}
	return out
}

func compareForRanges(a, b Member) int {
	switch {
	case a.Instance != "" && b.Instance != "":
		return strings.Compare(a.Instance, b.Instance)
	case a.Instance != "":
		return -1
	case b.Instance != "":
		return 1
	default:
		return strings.Compare(a.ID, b.ID)
	}
}
