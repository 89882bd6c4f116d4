package admin

import (
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

// brokerConfigs gives what a node shows, in the order of names. node is -1 for the cluster default, which has only what
// can be set.
func (a *APIs) brokerConfigs(node int32, rack string) []brokerConfig {
	var all []brokerConfig
	for i := range topicconfig.All() {
		if d := &topicconfig.All()[i]; d.Broker != "" {
			all = append(all, brokerConfig{
				name: d.Broker, kind: d.Type, value: d.Default, fallback: d,
				doc: fmt.Sprintf("Default of the topic config %s. %s", d.Name, d.Doc),
			})
		}
	}
	if node >= 0 {
		all = append(all, a.coordinatorConfigs()...)
		id := strconv.Itoa(int(node))
		all = append(all,
			brokerConfig{name: "broker.id", kind: topicconfig.Int, value: id, static: true, doc: "The node's id, given by the control plane."},
			brokerConfig{name: "node.id", kind: topicconfig.Int, value: id, static: true, doc: "The node's id, given by the control plane."},
			brokerConfig{name: "broker.rack", kind: topicconfig.String, value: rack, static: true, doc: "The agent's zone."},
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

// staticBrokerConfig tells whether a broker config is known but cannot be set.
func (a *APIs) staticBrokerConfig(name string) bool {
	for _, c := range a.brokerConfigs(0, "") {
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
