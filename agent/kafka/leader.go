package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/view"
)

// leader is who a partition belongs to, as Metadata shows it.
type leader struct {
	node  int32
	epoch int32
}

// leader gives the leader of a topic's partition; false if the view shows none.
func (v *zoneView) leader(t *view.Topic, partition int32) (leader, bool) {
	if partition < 0 || partition >= t.Partitions || len(v.brokers) == 0 {
		return leader{}, false
	}
	return leader{v.replicas(t).Leader(partition), v.epoch}, true
}

// broker finds a node; nil if the view does not show it.
func (v *zoneView) broker(node int32) *kmsg.MetadataResponseBroker {
	for i := range v.brokers {
		if v.brokers[i].NodeID == node {
			return &v.brokers[i]
		}
	}
	return nil
}
