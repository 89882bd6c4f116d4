package classic

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func protocolsOf(requested []kmsg.JoinGroupRequestProtocol) []Protocol {
	protocols := make([]Protocol, 0, len(requested))
	for _, p := range requested {
		protocols = append(protocols, Protocol{Name: p.Name, Metadata: p.Metadata})
	}
	return protocols
}

// IsLarge reports whether a member's protocols exceed MaxProtocols or MaxMemberBytes.
func IsLarge(protocols []kmsg.JoinGroupRequestProtocol) bool {
	return len(protocols) > MaxProtocols || requestedBytes(protocols) > MaxMemberBytes
}

// requestedBytes returns the bytes of the protocols in a request.
func requestedBytes(protocols []kmsg.JoinGroupRequestProtocol) (n int) {
	for _, p := range protocols {
		n += len(p.Name) + len(p.Metadata)
	}
	return n
}

// protocolBytes returns the bytes of a member's protocols.
func protocolBytes(protocols []Protocol) (n int) {
	for _, p := range protocols {
		n += len(p.Name) + len(p.Metadata)
	}
	return n
}

// supports is ClassicGroup.supportsProtocols: whether a member of these protocols can be in the group, which is when all
// members know at least one of them.
func (g *Group) supports(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	if g.state == Empty {
		return protocolType != "" && len(protocols) > 0
	}
	return g.protocolType == protocolType && slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return g.roster.votes[p.Name] == g.roster.len()
	})
}

// selectProtocol lets every member vote for the first of its protocols that all members know. The most votes win; of
// equals, the one voted for by the longest member (Kafka: whichever its hash map gives). There must be members.
func (g *Group) selectProtocol() string {
	votes := map[string]int{}
	var order []string
	for _, m := range g.roster.list {
		at := slices.IndexFunc(m.Protocols, func(p Protocol) bool { return g.roster.votes[p.Name] == g.roster.len() })
		if at < 0 {
			panic("classic: a member knows no protocol of its group")
		}
		name := m.Protocols[at].Name
		if votes[name] == 0 {
			order = append(order, name)
		}
		votes[name]++
	}
	best := order[0]
	for _, name := range order[1:] {
		if votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// computeTopics is ClassicGroup.computeSubscribedTopics: what the members of the generation subscribe to, as far as
// they are consumers whose metadata can be read.
func (g *Group) computeTopics() {
	g.topics, g.topicsKnown = nil, false
	if g.protocolType != consumerProtocolType {
		return
	}
	topics := map[string]struct{}{}
	for _, m := range g.roster.list {
		if !addTopics(topics, m.metadata(g.protocol)) {
			return
		}
	}
	g.topics, g.topicsKnown = topics, true
}

// addTopics reads the part of a consumer's subscription that all its versions begin with: version and topics.
func addTopics(topics map[string]struct{}, subscription []byte) bool {
	in := kbin.Reader{Src: subscription}
	in.Int16()
	for range in.ArrayLen() {
		topics[in.String()] = struct{}{}
		if !in.Ok() {
			return false
		}
	}
	return in.Ok()
}

// Subscribed tells whether a member may read a topic, so that its offsets neither expire nor can be deleted. Consumers
// whose metadata cannot be read are taken to read all.
func (g *Group) Subscribed(topic string) bool {
	if !g.topicsKnown {
		return g.protocolType == consumerProtocolType
	}
	_, ok := g.topics[topic]
	return ok
}
