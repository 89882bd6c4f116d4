package kafka

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/internal/assign"
)

// noListener is a name that no listener can have. The owner finds no agents, and so no leaders, for it.
const noListener = "="

// sharing translates the requests and answers that name nodes between a client of a shared listener and the owner, which knows
// agents only.
type sharing struct {
	req   *edge.Request
	nodes *Views
	s     *view.Snapshot
	view  *zoneView
	real  map[string]string // names of nodes to the owner, by their names to the client
}

// sharing returns the translation of a request, or nil if it needs none.
func (f *forwarded) sharing(req *edge.Request) *sharing {
	if !f.views.isShared(req) {
		return nil
	}
	switch kmsg.Key(req.Key) {
	case kmsg.DescribeCluster, kmsg.DescribeConfigs, kmsg.DescribeLogDirs, kmsg.DescribeQuorum, kmsg.DescribeTopicPartitions,
		kmsg.ListConfigResources, kmsg.ListTransactions:
		s := f.catalogue.Load()
		return &sharing{req: req, nodes: f.views, s: s, view: f.views.of(s, req)}
	default:
		return nil
	}
}

// request translates the request.
func (t *sharing) request(out *client.Forward) {
	switch kmsg.Key(t.req.Key) {
	case kmsg.DescribeConfigs:
		in := kmsg.NewPtrDescribeConfigsRequest()
		if Decode(t.req, in) == nil {
			t.renameNodes(in)
			out.Body = in.AppendTo(nil)
		}
	case kmsg.DescribeLogDirs:
		out.Listener = noListener // sizes of all partitions
	case kmsg.ListTransactions:
		out.Node = -1 // all transactions
	default:
	}
}

// answer translates the answer.
func (t *sharing) answer(body []byte) ([]byte, error) {
	out := kmsg.ResponseForKey(t.req.Key)
	out.SetVersion(t.req.Version)
	if err := out.ReadFrom(body); err != nil {
		return nil, err
	}
	switch out := out.(type) {
	case *kmsg.DescribeClusterResponse:
		t.cluster(out)
	case *kmsg.DescribeConfigsResponse:
		t.configs(out)
	case *kmsg.DescribeLogDirsResponse:
		t.logDirs(out)
	case *kmsg.DescribeQuorumResponse:
		t.quorum(out)
	case *kmsg.DescribeTopicPartitionsResponse:
		for i := range out.Topics {
			t.partitions(&out.Topics[i])
		}
	case *kmsg.ListConfigResourcesResponse:
		t.resources(out)
	case *kmsg.ListTransactionsResponse:
		if node := t.nodes.sharedNode(t.req); t.view.broker(node) != nil {
			out.TransactionStates = slices.DeleteFunc(out.TransactionStates, func(s kmsg.ListTransactionsResponseTransactionState) bool {
				n, ok := t.view.nodes.Own.Coordinator(transactionKey, s.TransactionalID)
				return ok && n.ID != node
			})
		}
	}
	return out.AppendTo(nil), nil
}

func (t *sharing) cluster(out *kmsg.DescribeClusterResponse) {
	if out.ErrorCode != 0 {
		return
	}
	out.Brokers, out.ControllerID = nil, t.view.controller()
	for _, shown := range t.view.brokers {
		b := kmsg.NewDescribeClusterResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = shown.NodeID, shown.Host, shown.Port, shown.Rack
		out.Brokers = append(out.Brokers, b)
	}
}

// quorum names the controller as the voter and the other nodes as observers.
func (t *sharing) quorum(out *kmsg.DescribeQuorumResponse) {
	for i := range out.Topics {
		for k := range out.Topics[i].Partitions {
			p := &out.Topics[i].Partitions[k]
			if len(p.CurrentVoters) == 0 || len(t.view.brokers) == 0 {
				continue
			}
			state := p.CurrentVoters[0] // all are at the end of the log
			p.LeaderID, p.CurrentVoters, p.Observers = t.view.controller(), nil, nil
			for i, b := range t.view.brokers {
				state.ReplicaID = b.NodeID
				if i == 0 {
					p.CurrentVoters = append(p.CurrentVoters, state)
				} else {
					p.Observers = append(p.Observers, state)
				}
			}
		}
	}
	for i := range min(len(out.Nodes), len(t.view.brokers)) { // the voter
		n, b := &out.Nodes[i], &t.view.brokers[i]
		n.NodeID = b.NodeID
		for k := range n.Listeners {
			n.Listeners[k].Host, n.Listeners[k].Port = b.Host, uint16(b.Port)
		}
	}
}

// partitions sets leaders and replicas. Leader epochs are the same in all views.
func (t *sharing) partitions(out *kmsg.DescribeTopicPartitionsResponseTopic) {
	if out.ErrorCode != 0 {
		return
	}
	topic, known := t.s.TopicByID(out.TopicID)
	for i := range out.Partitions {
		p := &out.Partitions[i]
		p.ErrorCode, p.LeaderID, p.Replicas, p.ISR = kerr.LeaderNotAvailable.Code, assign.NoNode, []int32{}, []int32{}
		if !known {
			continue // created since
		}
		if shown, ok := t.view.leader(topic, p.Partition); ok {
			p.ErrorCode, p.LeaderID, p.Replicas = 0, shown.node, t.view.exactly(topic, p.Partition)
			p.ISR = p.Replicas
		}
	}
}

// logDirs keeps the partitions whose leader is the node that the client connected to.
func (t *sharing) logDirs(out *kmsg.DescribeLogDirsResponse) {
	node := t.nodes.sharedNode(t.req)
	for i := range out.Dirs {
		dir := &out.Dirs[i]
		all := dir.Topics
		dir.Topics = []kmsg.DescribeLogDirsResponseDirTopic{}
		for _, topic := range all {
			known, ok := t.s.TopicByName(topic.Topic)
			if !ok {
				continue // created since
			}
			led := topic.Partitions[:0]
			for _, p := range topic.Partitions {
				if shown, ok := t.view.leader(known, p.Partition); ok && shown.node == node {
					led = append(led, p)
				}
			}
			if topic.Partitions = led; len(led) > 0 {
				dir.Topics = append(dir.Topics, topic)
			}
		}
	}
}

// resources replaces agents' nodes by the nodes of the client's view.
func (t *sharing) resources(out *kmsg.ListConfigResourcesResponse) {
	all := out.ConfigResources
	out.ConfigResources = nil
	listed := make(map[int8]bool)
	for _, r := range all {
		switch kmsg.ConfigResourceType(r.Type) {
		case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
			if listed[r.Type] {
				continue
			}
			listed[r.Type] = true
			for _, b := range t.view.brokers {
				r.Name = nodeName(b.NodeID)
				out.ConfigResources = append(out.ConfigResources, r)
			}
		default:
			out.ConfigResources = append(out.ConfigResources, r)
		}
	}
}

func nodeName(node int32) string { return strconv.Itoa(int(node)) }

// renameNodes replaces each shared node by one of an agent behind the load balancer, at the same port.
func (t *sharing) renameNodes(in *kmsg.DescribeConfigsRequest) {
	t.real = make(map[string]string)
	real := t.agentNodes()
	for i := range in.Resources {
		r := &in.Resources[i]
		if name, ok := real[r.ResourceName]; ok && isNode(r.ResourceType) {
			t.real[r.ResourceName] = name
			r.ResourceName = name
		}
	}
}

func isNode(t kmsg.ConfigResourceType) bool {
	return t == kmsg.ConfigResourceTypeBroker || t == kmsg.ConfigResourceTypeBrokerLogger
}

// agentNodes returns, by the name of each shared node, the name of an agent's node behind it.
func (t *sharing) agentNodes() map[string]string {
	listener := t.req.Client.Listener
	real := make(map[string]string)
	for _, m := range t.s.Shown() {
		g, ok := t.nodes.shared[listener].zones[m.Zone]
		if !ok || real[nodeName(g.Nodes[0][0].ID)] != "" {
			continue
		}
		for i, n := range nodesOf(m, listener) {
			if i < len(g.Nodes[0]) {
				real[nodeName(g.Nodes[0][i].ID)] = nodeName(n.ID)
			}
		}
	}
	return real
}

// advertised returns the load balancer's address of a node instead of an agent's.
func (t *sharing) advertised(name, agent string) string {
	listener, _, _ := strings.Cut(agent, "://")
	for _, b := range t.view.brokers {
		if nodeName(b.NodeID) == name {
			return listener + "://" + net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		}
	}
	return listener + "://"
}

// configs restores the names that the client sent.
func (t *sharing) configs(out *kmsg.DescribeConfigsResponse) {
	shown := make(map[string]string, len(t.real))
	for name, real := range t.real {
		shown[real] = name
	}
	for i := range out.Resources {
		r := &out.Resources[i]
		name, ok := shown[r.ResourceName]
		if !ok || !isNode(r.ResourceType) {
			continue
		}
		r.ResourceName = name
		for k := range r.Configs {
			c := &r.Configs[k]
			value := name
			switch c.Name {
			case "broker.id", "node.id":
			case "advertised.listeners":
				if c.Value == nil {
					continue
				}
				value = t.advertised(name, *c.Value)
			default:
				continue
			}
			c.Value = &value
			for j := range c.ConfigSynonyms {
				c.ConfigSynonyms[j].Value = &value
			}
		}
	}
}
