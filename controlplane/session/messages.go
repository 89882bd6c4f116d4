package session

import (
	"bytes"
	"iter"
	"maps"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// fullCatalogue is everything agents know of besides partitions' contents, in messages with about partBytes of topics each:
// at some 400,000 topics one would be larger than a message may be. Each is made when the one before was taken.
func fullCatalogue(s *metadata.State, partBytes int) iter.Seq[*api.Catalogue] {
	return func(yield func(*api.Catalogue) bool) {
		part := &api.Catalogue{
			Index: s.Index(), Full: true, Membership: membership(s),
			BrokerConfigs: texts(s.Configs(metadata.ConfigBroker, "")), BrokerConfigsSet: true,
			ClientMetrics: clientMetrics(s), ClientMetricsSet: true,
			OffsetsTopic: proto.Bool(s.HasGroups()), TransactionsTopic: proto.Bool(s.HasTransactions()),
		}
		size := 0
		for t := range s.Topics() {
			topic := topicMessage(t)
			n := proto.Size(topic)
			if size > 0 && size+n > partBytes {
				part.More = true
				if !yield(part) {
					return
				}
				part, size = &api.Catalogue{Index: s.Index(), Full: true}, 0
			}
			part.Topics, size = append(part.Topics, topic), size+n
		}
		yield(part)
	}
}

// catalogueDelta returns the changes by the effects, with the membership if members is true. It returns nil if agents know nothing of them.
func catalogueDelta(s *metadata.State, index uint64, fx *metadata.Effects, members bool) *api.Catalogue {
	if len(fx.Topics) == 0 && !fx.Configs && !members && !fx.Internal {
		return nil
	}
	c := &api.Catalogue{Index: index}
	seen := make(map[id.Topic]bool, len(fx.Topics))
	for _, topic := range fx.Topics {
		if seen[topic] {
			continue
		}
		seen[topic] = true
		if t, ok := s.Topic(topic); ok {
			c.Topics = append(c.Topics, topicMessage(t))
		} else {
			c.DeletedTopics = append(c.DeletedTopics, bytes.Clone(topic[:]))
		}
	}
	if fx.Configs {
		c.BrokerConfigs, c.BrokerConfigsSet = texts(s.Configs(metadata.ConfigBroker, "")), true
		c.ClientMetrics, c.ClientMetricsSet = clientMetrics(s), true
	}
	if members {
		c.Membership = membership(s)
	}
	if fx.Internal {
		c.OffsetsTopic, c.TransactionsTopic = proto.Bool(s.HasGroups()), proto.Bool(s.HasTransactions())
	}
	return c
}

// clientMetrics gives the client metrics subscriptions.
func clientMetrics(s *metadata.State) []*api.ClientMetrics {
	var all []*api.ClientMetrics
	for name := range s.ConfiguredNames(metadata.ConfigClientMetrics) {
		all = append(all, &api.ClientMetrics{Name: text(name), Configs: texts(s.Configs(metadata.ConfigClientMetrics, name))})
	}
	return all
}

// text is s with U+FFFD for what is not UTF-8, which Apache Kafka reads as such too (Readable.readString). Names and values are
// bytes of clients; a message with others would never be sent, and no agent would learn of anything after it.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// texts is configs with every value as text; the same map if all of them are.
func texts(configs map[string]string) map[string]string {
	copied := false
	for name, value := range configs {
		valid := text(value)
		if valid == value {
			continue
		}
		if !copied {
			configs, copied = maps.Clone(configs), true
		}
		configs[name] = valid
	}
	return configs
}

func topicMessage(t *metadata.Topic) *api.Topic {
	return &api.Topic{Id: bytes.Clone(t.ID[:]), Name: t.Name, Partitions: t.Partitions, Configs: texts(t.Configs), ReplicationFactor: int32(t.ReplicationFactor)}
}

func membership(s *metadata.State) *api.Membership {
	m := &api.Membership{Version: s.MembershipVersion()}
	for info := range s.Sessions() {
		if !info.Shown() {
			if !info.Closed && info.Roles.ServesClients() {
				m.Unshown = append(m.Unshown, uint32(info.ID))
			}
			continue
		}
		m.Members = append(m.Members, &api.Member{
			Session: uint32(info.ID), Zone: info.Zone, Endpoints: endpointMessages(info.Endpoints), NodeIds: info.NodeIDs,
			PeerAddress: info.Peer,
		})
	}
	for info := range s.EmptiedZones() {
		m.Gone = append(m.Gone, &api.Member{Session: uint32(info.ID), Zone: info.Zone, Endpoints: endpointMessages(info.Endpoints)})
	}
	return m
}

func endpointMessages(endpoints []metadata.Endpoint) []*api.Endpoint {
	out := make([]*api.Endpoint, len(endpoints))
	for i, e := range endpoints {
		out[i] = &api.Endpoint{Listener: e.Listener, Host: e.Host, Port: e.Port}
	}
	return out
}

func partitionNotice(p *metadata.PartitionEffect) *api.PartitionNotice {
	return &api.PartitionNotice{
		Topic: bytes.Clone(p.Partition.Topic[:]), Partition: p.Partition.Partition,
		LogStart: p.LogStart, HighWatermark: p.HighWatermark, LastStable: p.LastStable,
		Extents: extent.AppendList(nil, p.Extents), Aborted: abortedMessages(p.Aborted),
	}
}

func abortedMessages(in []extent.Aborted) []*api.AbortedTransaction {
	if len(in) == 0 {
		return nil
	}
	out := make([]*api.AbortedTransaction, len(in))
	for i, a := range in {
		out[i] = &api.AbortedTransaction{ProducerId: a.ProducerID, First: a.First, Last: a.Last}
	}
	return out
}

func catalogueItem(c *api.Catalogue) *api.OwnerItem {
	return &api.OwnerItem{Item: &api.OwnerItem_Catalogue{Catalogue: c}}
}

func noticeItem(n *api.Notice) *api.OwnerItem {
	return &api.OwnerItem{Item: &api.OwnerItem_Notice{Notice: n}}
}

func refusedItem(reason api.Refused_Reason, message string) *api.OwnerItem {
	return &api.OwnerItem{Item: &api.OwnerItem_Refused{Refused: &api.Refused{Reason: reason, Message: message}}}
}

func commitItem(request uint64, result []byte, index uint64, fault *api.Error) *api.OwnerItem {
	return &api.OwnerItem{Item: &api.OwnerItem_Commit{Commit: &api.CommitAnswer{
		Request: request, Result: result, Index: index, Error: fault,
	}}}
}

func doneItem(request uint64, fault *api.Error) *api.OwnerItem {
	return &api.OwnerItem{Item: &api.OwnerItem_Done{Done: &api.Done{Request: request, Error: fault}}}
}

func fault(code api.Error_Code, message string) *api.Error {
	return &api.Error{Code: code, Message: message}
}

// topicPartition reads a partition's name; ok is false if the topic id has the wrong length.
func topicPartition(topic []byte, partition int32) (tp id.TopicPartition, ok bool) {
	if len(topic) != len(tp.Topic) {
		return tp, false
	}
	copy(tp.Topic[:], topic)
	tp.Partition = partition
	return tp, true
}
