package session

import (
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// largestTimestamp asks for the record with the largest timestamp (KIP-734).
const largestTimestamp = -3

// lookup answers about partitions as of one index and begins the subscriptions asked for there.
func (a *agent) lookup(request *api.Lookup) {
	answer := &api.LookupAnswer{Request: request.Request}
	item := &api.OwnerItem{Item: &api.OwnerItem_Lookup{Lookup: answer}}
	if len(request.Partitions) > maxLookupPartitions {
		answer.Error = fault(api.Error_INVALID, "too many partitions in one look-up")
		a.out.push(item)
		return
	}
	a.t.metrics.lookups.Add(float64(len(request.Partitions)))
	var place *place
	index, err := a.t.owner.Read(func(s *metadata.State) {
		answer.Partitions = lookUp(s, request.Partitions)
		place = a.subscribe(s.Index(), request.Partitions, answer.Partitions)
	})
	answer.Index = index
	switch {
	case err != nil:
		answer.Partitions, answer.Error = nil, fault(api.Error_UNAVAILABLE, err.Error())
	case place == nil:
		answer.Partitions, answer.Error = nil, fault(api.Error_THROTTLED, "too many subscriptions")
	}
	if place == nil { // the owner had ended, or there are too many
		a.out.push(item)
		return
	}
	a.out.fill(place, item)
}

// subscribe begins notices beyond index for the partitions that ask for them and exist, and reserves the answer's
// place before any of them. Called inside owner.Read. Nil if the agent would have too many: nothing has changed then,
// since a subscription that was there must not skip notices for an answer that is not given.
func (a *agent) subscribe(index uint64, asked []*api.PartitionLookup, answers []*api.PartitionAnswer) *place {
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	if a.t.mu.agents[a.session] != a {
		return a.out.reserve()
	}
	added := 0
	for i, p := range asked {
		if tp, _ := topicPartition(p.Topic, p.Partition); p.Subscribe && !answers[i].Unknown {
			if _, ok := a.watching[tp]; !ok {
				added++
			}
		}
	}
	if added > 0 && len(a.watching)+added > a.t.limits.Subscriptions {
		return nil
	}
	for i, p := range asked {
		if !p.Subscribe || answers[i].Unknown {
			continue
		}
		tp, _ := topicPartition(p.Topic, p.Partition)
		a.watching[tp] = struct{}{}
		watchers := a.t.mu.watchers[tp]
		if watchers == nil {
			watchers = map[*agent]uint64{}
			a.t.mu.watchers[tp] = watchers
		}
		watchers[a] = index
	}
	return a.out.reserve()
}

// unsubscribe ends notices.
func (a *agent) unsubscribe(request *api.Unsubscribe) {
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	for _, p := range request.Partitions {
		if tp, ok := topicPartition(p.Topic, p.Partition); ok {
			a.t.unwatch(a, tp)
		}
	}
}

// lookUp answers each partition asked about. Beyond maxLookupExtents in all, each partition gets one extent.
func lookUp(s *metadata.State, asked []*api.PartitionLookup) []*api.PartitionAnswer {
	answers := make([]*api.PartitionAnswer, len(asked))
	left := maxLookupExtents
	for i, p := range asked {
		tp, ok := topicPartition(p.Topic, p.Partition)
		if !ok {
			answers[i] = &api.PartitionAnswer{Unknown: true}
			continue
		}
		var n int
		answers[i], n = lookUpPartition(s, tp, p, max(left, 1))
		left -= n
	}
	return answers
}

// lookUpPartition answers one partition with at most limit extents, and tells how many it gave.
func lookUpPartition(s *metadata.State, tp id.TopicPartition, p *api.PartitionLookup, limit int) (*api.PartitionAnswer, int) {
	marks, ok := s.Watermarks(tp)
	if !ok {
		return &api.PartitionAnswer{Unknown: true}, 0
	}
	answer := &api.PartitionAnswer{LogStart: marks.LogStart, HighWatermark: marks.HighWatermark, LastStable: marks.LastStable}
	var exts []extent.Extent
	switch want := p.Want.(type) {
	case *api.PartitionLookup_ExtentsFrom:
		if p.MaxExtents > 0 {
			limit = min(limit, int(p.MaxExtents))
		} else {
			limit = min(limit, defaultExtents)
		}
		exts, answer.More = s.Extents(tp, want.ExtentsFrom, limit, lookupBytes(p.MaxBytes))
	case *api.PartitionLookup_Timestamp:
		find := func() (extent.Extent, bool) { return s.FindTimestamp(tp, want.Timestamp) }
		if want.Timestamp == largestTimestamp {
			find = func() (extent.Extent, bool) { return s.MaxTimestampExtent(tp) }
		}
		if ext, found := find(); found {
			exts = []extent.Extent{ext}
		}
	}
	answer.Extents = extent.AppendList(nil, exts)
	return answer, len(exts)
}

// lookupBytes is a look-up's byte bound; without one there is none.
func lookupBytes(asked uint64) int64 {
	const unbounded = 1<<63 - 1
	if asked == 0 || asked > unbounded {
		return unbounded
	}
	return int64(asked)
}
