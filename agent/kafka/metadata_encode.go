package kafka

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/view"
)

// maxListBytes bounds the encoded lists that are kept: 100,000 partitions take 3 to 5 MB for each view and API version.
const maxListBytes = 32 << 20

// topicLists are encoded answers to requests for all topics, so that clients that ask at the same time share one encoding.
// They are of one snapshot. A list that does not fit beside the others within maxListBytes takes their place.
type topicLists struct {
	encoded prometheus.Gauge // bytes

	mu struct {
		sync.Mutex
		of    *view.Snapshot
		kept  map[listKey]*topicList
		bytes int // of the lists in kept that are encoded
	}
}

// listKey is all that a list depends on beside the snapshot.
type listKey struct {
	zone                               *zoneView
	version                            int16 // of the API
	topicOperations, clusterOperations bool
}

type topicList struct {
	encoded func() []byte // once
	counted bool          // in topicLists.bytes; guarded by topicLists.mu
}

// get returns a list, encoded by the first caller. The bytes are shared: do not change them.
func (l *topicLists) get(s *view.Snapshot, key listKey, encode func() []byte) []byte {
	list := l.list(s, key, encode)
	encoded := list.encoded()
	l.mu.Lock()
	defer l.mu.Unlock()
	if list.counted || l.mu.kept[key] != list {
		return encoded
	}
	if len(encoded) > maxListBytes {
		delete(l.mu.kept, key)
		return encoded
	}
	if l.mu.bytes+len(encoded) > maxListBytes { // lists of views and versions that are no longer used must not keep this one out
		l.mu.kept, l.mu.bytes = map[listKey]*topicList{key: list}, 0
	}
	list.counted = true
	l.mu.bytes += len(encoded)
	l.encoded.Set(float64(l.mu.bytes))
	return encoded
}

func (l *topicLists) list(s *view.Snapshot, key listKey, encode func() []byte) *topicList {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.of != s {
		l.mu.of, l.mu.kept, l.mu.bytes = s, make(map[listKey]*topicList), 0
		l.encoded.Set(0)
	}
	list := l.mu.kept[key]
	if list == nil {
		list = &topicList{encoded: sync.OnceValue(encode)}
		l.mu.kept[key] = list
	}
	return list
}

// encodedTopics returns the answer to a request for all topics.
func (v *Views) encodedTopics(in *kmsg.MetadataRequest, s *view.Snapshot, zone *zoneView) []byte {
	key := listKey{zone, in.Version, in.IncludeTopicAuthorizedOperations, in.IncludeClusterAuthorizedOperations}
	return v.lists.get(s, key, func() []byte {
		results := make([]found, 0, s.TopicCount())
		for t := range s.Topics() {
			results = append(results, found{topic: t})
		}
		return metadataResponse(in, s, zone, nil, results).AppendTo(nil)
	})
}

// metadataResponse answers a request. topics[i] is what results[i] are about, where it is not a topic.
func metadataResponse(
	in *kmsg.MetadataRequest, s *view.Snapshot, zone *zoneView, topics []asked, results []found,
) *kmsg.MetadataResponse {
	out := kmsg.NewPtrMetadataResponse()
	out.Version, out.Brokers, out.ControllerID = in.Version, zone.brokers, zone.controller()
	if s.ClusterID != "" {
		out.ClusterID = &s.ClusterID
	}
	if in.IncludeClusterAuthorizedOperations {
		out.AuthorizedOperations = allClusterOperations
	}
	out.Topics = make([]kmsg.MetadataResponseTopic, 0, len(results))
	for i, r := range results {
		if r.topic == nil {
			out.Topics = append(out.Topics, refusedTopic(topics[i], r.err))
			continue
		}
		t := zone.topic(r.topic)
		if in.IncludeTopicAuthorizedOperations {
			t.AuthorizedOperations = allTopicOperations
		}
		out.Topics = append(out.Topics, t)
	}
	return out
}

func newEncoded(r prometheus.Registerer) prometheus.Gauge {
	return promauto.With(r).NewGauge(prometheus.GaugeOpts{
		Name: "freshet_metadata_encoded_bytes", Help: "Bytes of encoded lists of all topics, shared by the clients that ask for them.",
	})
}
