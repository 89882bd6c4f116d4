package session

import (
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// largestTimestamp asks for the record with the largest timestamp (KIP-734).
const largestTimestamp = -3

// maxLookupAborted bounds the aborted transactions in one answer, about 2 MiB; once reached, further partitions get one
// extent and what reaches into that.
const maxLookupAborted = 1 << 16

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

// room is how much of extents and aborted transactions an answer may still take.
type room struct{ extents, aborted int }

// lookUp answers each partition asked about. Beyond maxLookupExtents and maxLookupAborted in all, each partition gets
// one extent and the aborted transactions that reach into it.
func lookUp(s *metadata.State, asked []*api.PartitionLookup) []*api.PartitionAnswer {
	answers := make([]*api.PartitionAnswer, len(asked))
	left := room{extents: maxLookupExtents, aborted: maxLookupAborted}
	for i, p := range asked {
		tp, ok := topicPartition(p.Topic, p.Partition)
		if !ok {
			answers[i] = &api.PartitionAnswer{Unknown: true}
			continue
		}
		answers[i] = lookUpPartition(s, tp, p, &left)
	}
	return answers
}

// lookUpPartition answers one partition, and takes what that needs off what is left.
func lookUpPartition(s *metadata.State, tp id.TopicPartition, p *api.PartitionLookup, left *room) *api.PartitionAnswer {
	marks, ok := s.Watermarks(tp)
	if !ok {
		return &api.PartitionAnswer{Unknown: true}
	}
	answer := &api.PartitionAnswer{LogStart: marks.LogStart, HighWatermark: marks.HighWatermark, LastStable: marks.LastStable}
	var exts []extent.Extent
	switch want := p.Want.(type) {
	case *api.PartitionLookup_ExtentsFrom:
		limit := max(left.extents, 1)
		if p.MaxExtents > 0 {
			limit = min(limit, int(p.MaxExtents))
		} else {
			limit = min(limit, defaultExtents)
		}
		exts, answer.More = s.Extents(tp, want.ExtentsFrom, limit, lookupBytes(p.MaxBytes))
		var aborted []extent.Aborted
		exts, answer.More, aborted = lookUpAborted(s, tp, exts, answer.More, left.aborted)
		answer.Aborted = abortedMessages(aborted)
		left.aborted -= len(aborted)
	case *api.PartitionLookup_Timestamp:
		find := func() (extent.Extent, bool) { return s.FindTimestamp(tp, p.From, want.Timestamp) }
		if want.Timestamp == largestTimestamp {
			to := p.To
			if to == 0 {
				to = marks.HighWatermark
			}
			find = func() (extent.Extent, bool) { return s.MaxTimestampExtent(tp, p.From, to) }
		}
		if ext, found := find(); found {
			exts = []extent.Extent{ext}
		}
	}
	answer.Extents = extent.AppendList(nil, exts)
	left.extents -= len(exts)
	return answer
}

// lookUpAborted gives the aborted transactions that reach into the extents. If more extents follow, only what lies below
// the last stable offset counts: the rest cannot be read as committed from this answer. If there are more than limit,
// extents are left off at the end, but never the first.
func lookUpAborted(s *metadata.State, tp id.TopicPartition, exts []extent.Extent, more bool, limit int) (
	[]extent.Extent, bool, []extent.Aborted,
) {
	marks, _ := s.Watermarks(tp)
	for len(exts) > 0 {
		from, to := exts[0].Base, exts[len(exts)-1].Last+1
		if more {
			to = min(to, marks.LastStable)
		}
		if to <= from {
			return exts, more, nil
		}
		aborted := s.AbortedTransactions(tp, from, to)
		if len(aborted) <= limit || len(exts) == 1 {
			return exts, more, aborted
		}
		exts, more = exts[:len(exts)/2], true
	}
	return nil, more, nil
}

// lookupBytes is a look-up's byte bound; without one there is none.
func lookupBytes(asked uint64) int64 {
	const unbounded = 1<<63 - 1
	if asked == 0 || asked > unbounded {
		return unbounded
	}
	return int64(asked)
}
