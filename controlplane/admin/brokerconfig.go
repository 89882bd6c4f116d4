package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/brokerconfig"
	"github.com/freshet-io/freshet/internal/groupconfig"
	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/metadata"
)

// brokerConfig is one broker config that descriptions show. Those with a topic config behind them are the cluster's
// defaults of it and can be set on the cluster ("" as broker); the others only describe.
type brokerConfig struct {
	name     string
	kind     topicconfig.Type
	value    string // default, or what it is
	fallback *topicconfig.Def
	static   bool   // as if from the broker's configuration file, not a default
	base     string // of a static one, the default that it replaces; "" if there is none
	doc      string
}

// describedNode is a node whose configs a client asked for.
type describedNode struct {
	id       int32
	rack     string
	listener string // "" for the default listener
	address  string // host:port at the client's listener; "" if there is none, as for a node that stands for a zone without agents
	// autoCreate reports whether agents create topics that clients ask for.
	autoCreate bool
}

// brokerConfigs returns the configs of a node in the order of names. nil is the cluster default, which has only the configs that can be set.
func (a *APIs) brokerConfigs(n *describedNode) []brokerConfig {
	var all []brokerConfig
	for i := range topicconfig.All() {
		if d := &topicconfig.All()[i]; d.Broker != "" {
			all = append(all, brokerConfig{
				name: d.Broker, kind: d.Type, value: d.Default, fallback: d,
				doc: fmt.Sprintf("Default of the topic config %s. %s", d.Name, d.Doc),
			})
		}
	}
	if n != nil {
		all = append(all, a.coordinatorConfigs()...)
		id := strconv.Itoa(int(n.id))
		if n.address != "" {
			all = append(all, brokerConfig{
				name: "advertised.listeners", kind: topicconfig.List, value: cmp.Or(n.listener, "DEFAULT") + "://" + n.address, static: true,
				doc: "The node's address for clients of this listener.",
			})
		}
		all = append(all,
			brokerConfig{name: "authorizer.class.name", kind: topicconfig.String, value: "", doc: "There is no authorizer."},
			brokerConfig{
				name: "auto.create.topics.enable", kind: topicconfig.Boolean, value: strconv.FormatBool(n.autoCreate), static: true, base: "true",
				doc: "Agents create topics that clients ask for (--auto-create-topics).",
			},
			brokerConfig{name: "group.share.enable", kind: topicconfig.Boolean, value: "false", doc: "There are no share groups."},
			brokerConfig{name: "log.cleaner.enable", kind: topicconfig.Boolean, value: "true", doc: "Compacted topics are cleaned."},
			brokerConfig{
				name: "log.retention.hours", kind: topicconfig.Int, value: "168",
				doc: "Default of the topic config retention.ms in hours, unless log.retention.ms is set.",
			},
			brokerConfig{name: "broker.id", kind: topicconfig.Int, value: id, static: true, doc: "The node's id, given by the control plane."},
			brokerConfig{name: "node.id", kind: topicconfig.Int, value: id, static: true, doc: "The node's id, given by the control plane."},
			brokerConfig{name: "broker.rack", kind: topicconfig.String, value: n.rack, static: true, doc: "The agent's zone."},
			brokerConfig{
				name: "default.replication.factor", kind: topicconfig.Int, value: strconv.Itoa(metadata.DefaultReplicationFactor),
				doc: "Replicas that clients see of each partition of a topic created without a factor. The object store replicates the records.",
			},
			brokerConfig{name: "delete.topic.enable", kind: topicconfig.Boolean, value: "true", doc: "Topics can be deleted."},
			brokerConfig{
				name: "num.partitions", kind: topicconfig.Int, value: strconv.Itoa(int(a.cfg.DefaultPartitions)), static: true,
				doc: "Partitions of topics created without a count.",
			},
		)
	}
	slices.SortFunc(all, func(x, y brokerConfig) int { return strings.Compare(x.name, y.name) })
	return all
}

// coordinatorConfigs gives what groups and transactions are coordinated with, and defaults of groups' configs that nothing
// here acts on.
func (a *APIs) coordinatorConfigs() []brokerConfig {
	var all []brokerConfig
	for _, d := range brokerconfig.All() {
		c := brokerConfig{name: d.Name, kind: d.Type, base: d.Default, doc: d.Doc}
		c.value, c.static = a.cfg.Broker.Value(d.Name)
		all = append(all, c)
	}
	for _, d := range groupconfig.All() {
		if _, listed := brokerconfig.Lookup(d.Broker); d.Broker != "" && !listed {
			all = append(all, brokerConfig{name: d.Broker, kind: d.Type, value: d.Default, doc: fmt.Sprintf("Default of the group config %s. %s", d.Name, d.Doc)})
		}
	}
	return all
}

// staticBrokerConfig reports whether a broker config is known but cannot be set.
func (a *APIs) staticBrokerConfig(name string) bool {
	for _, c := range a.brokerConfigs(&describedNode{address: "any"}) {
		if c.name == name {
			return c.fallback == nil
		}
	}
	return false
}

// topicConfigSource tells where a topic config's effective value comes from.
func topicConfigSource(d *topicconfig.Def, topic, brokers map[string]string) kmsg.ConfigSource {
	if _, ok := topic[d.Name]; ok {
		return kmsg.ConfigSourceDynamicTopicConfig
	}
	if _, ok := brokers[d.Broker]; ok && d.Broker != "" {
		return kmsg.ConfigSourceDynamicDefaultBrokerConfig
	}
	return kmsg.ConfigSourceDefaultConfig
}
