package admin

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// CreateTopics, key 19, versions 2-7.
//
//	2  has validate_only and a throttle time
//	4  takes -1 for the default partition count and replication factor (taken in every version here, as Kafka does)
//	5  is flexible; answers partition count, replication factor and configs
//	7  answers topic ids

// maxPartitionsPerRequest bounds the partitions that one request creates, as Kafka's controller does.
const maxPartitionsPerRequest = 10_000

func (c *call) createTopics(ctx context.Context, in *kmsg.CreateTopicsRequest) (*kmsg.CreateTopicsResponse, error) {
	topics := newTopics(in)
	var brokers map[string]string // the cluster's config defaults
	err := c.read(func(s *metadata.State) error {
		brokers = s.Configs(metadata.ConfigBroker, "")
		nodes := nodesAt(s, c.forward.Listener)
		for i := range topics {
			if t := &topics[i]; t.asked != nil {
				t.command, t.err = c.checkNewTopic(t.asked, brokers, nodes)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = c.change(ctx, func() error {
		if err := c.read(func(s *metadata.State) error { checkNewNames(s, topics); return nil }); err != nil || in.ValidateOnly {
			return err
		}
		return c.proposeTopics(ctx, topics)
	})
	if err != nil {
		return nil, err
	}
	out := kmsg.NewPtrCreateTopicsResponse()
	out.Topics = make([]kmsg.CreateTopicsResponseTopic, len(topics))
	errs := make([]*apiError, len(topics))
	for i := range topics {
		out.Topics[i], errs[i] = createdTopic(&topics[i], brokers, in.Version >= 5), topics[i].err
	}
	out.ThrottleMillis = throttleMs(errs)
	return out, nil
}

// newTopic is one name of a request, and its outcome.
type newTopic struct {
	name    string
	asked   *kmsg.CreateTopicsRequestTopic // nil if the request has the name several times
	command *metadata.CreateTopic          // counts if err is nil
	err     *apiError
}

// newTopics returns the names in the request's order, each once.
func newTopics(in *kmsg.CreateTopicsRequest) []newTopic {
	topics, known := make([]newTopic, 0, len(in.Topics)), make(map[string]int, len(in.Topics))
	for i := range in.Topics {
		t := &in.Topics[i]
		if at, twice := known[t.Topic]; twice {
			topics[at].asked = nil
			continue
		}
		known[t.Topic] = len(topics)
		topics = append(topics, newTopic{name: t.Topic, asked: t})
	}
	return topics
}

// checkNewNames checks the names against the state and each other, and bounds the partitions. An error about the name comes before
// others.
func checkNewNames(s *metadata.State, topics []newTopic) {
	names := make([]string, len(topics))
	for i := range topics {
		names[i] = topics[i].name
	}
	collides, total := colliding(s, names), 0
	for i := range topics {
		t := &topics[i]
		_, exists := s.TopicByName(t.name)
		other, clash := collides[unified(t.name)]
		switch {
		case t.asked == nil:
			t.err = failed(kerr.InvalidRequest, "Duplicate topic name.")
		case t.name == clusterMetadataTopic:
			t.err = failed(kerr.InvalidRequest, "Creation of internal topic "+clusterMetadataTopic+" is prohibited.")
		case exists || internaltopic.ByName(t.name) != nil:
			t.err = failed(kerr.TopicAlreadyExists, fmt.Sprintf("Topic '%s' already exists.", t.name))
		case checkTopicName(t.name) != nil:
			t.err = checkTopicName(t.name)
		case clash && strings.ContainsAny(t.name, "._"):
			t.err = failed(kerr.InvalidTopicException, fmt.Sprintf("Topic '%s' collides with existing topic: %s", t.name, other))
		}
		if t.err != nil {
			continue
		}
		collides[unified(t.name)] = t.name // for later names of this request
		if total += int(t.command.Partitions); total > maxPartitionsPerRequest {
			total -= int(t.command.Partitions)
			t.err = failed(kerr.PolicyViolation, "Excessively large number of partitions per request.")
		}
	}
}

// checkNewTopic checks everything but the name. nodes is the number of nodes of the cluster. The topic counts only without a fault.
func (c *call) checkNewTopic(t *kmsg.CreateTopicsRequestTopic, brokers map[string]string, nodes int) (*metadata.CreateTopic, *apiError) {
	configs, fault := newTopicConfigs(t.Configs)
	if fault != nil {
		return nil, fault
	}
	if err := topicconfig.Validate(configs, brokers); err != nil {
		return nil, failed(kerr.InvalidConfig, err.Error())
	}
	n := &metadata.CreateTopic{
		ID: newTopicID(), Name: t.Topic, Partitions: t.NumPartitions, ReplicationFactor: t.ReplicationFactor, Configs: configs,
	}
	if len(t.ReplicaAssignment) > 0 {
		return n, assigned(n, t, nodes) // a fault voids the topic
	}
	switch {
	case t.ReplicationFactor < -1 || t.ReplicationFactor == 0:
		return nil, failed(kerr.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	case t.NumPartitions < -1 || t.NumPartitions == 0:
		return nil, failed(kerr.InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	case t.NumPartitions > metadata.MaxPartitions:
		return nil, failed(kerr.InvalidPartitions, fmt.Sprintf("A topic has at most %d partitions.", metadata.MaxPartitions))
	}
	if t.NumPartitions == -1 {
		n.Partitions = c.cfg.DefaultPartitions
	}
	if t.ReplicationFactor == -1 {
		n.ReplicationFactor = metadata.DefaultReplicationFactor
	}
	return n, checkFactor(int(n.ReplicationFactor), nodes)
}

// checkFactor checks a replication factor in a cluster of a number of nodes. Factors up to the default need no nodes: an agent may have
// fewer ports. The text is that of ReplicationControlManager.createTopic and StripedReplicaPlacer.
func checkFactor(factor, nodes int) *apiError {
	switch {
	case factor <= metadata.DefaultReplicationFactor:
		return nil
	case factor > metadata.MaxReplicationFactor:
		return failed(kerr.InvalidReplicationFactor, fmt.Sprintf("A topic has a replication factor of at most %d.", metadata.MaxReplicationFactor))
	case factor > nodes:
		return failed(kerr.InvalidReplicationFactor, fmt.Sprintf("Unable to replicate the partition %d time(s): The target replication factor of %d "+
			"cannot be reached because only %d broker(s) are registered.", factor, factor, nodes))
	}
	return nil
}

// assigned takes the partition count and the replication factor from a manual assignment, which has no other effect.
func assigned(n *metadata.CreateTopic, t *kmsg.CreateTopicsRequestTopic, nodes int) *apiError {
	switch {
	case t.ReplicationFactor != -1:
		return failed(kerr.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	case t.NumPartitions != -1:
		return failed(kerr.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	seen := map[int32]bool{}
	for _, a := range t.ReplicaAssignment {
		if seen[a.Partition] {
			return failed(kerr.InvalidReplicaAssignment, fmt.Sprintf("Found multiple manual partition assignments for partition %d", a.Partition))
		}
		seen[a.Partition] = true
		if fault := checkReplicas(a.Replicas, len(t.ReplicaAssignment[0].Replicas)); fault != nil {
			return fault
		}
	}
	for i := range int32(len(seen)) {
		if !seen[i] {
			return failed(kerr.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
	}
	factor := len(t.ReplicaAssignment[0].Replicas)
	if fault := checkFactor(factor, nodes); fault != nil {
		return fault
	}
	n.Partitions, n.ReplicationFactor = int32(len(seen)), int16(factor)
	return nil
}

// checkReplicas checks the form of one partition's manual assignment.
func checkReplicas(replicas []int32, factor int) *apiError {
	switch {
	case len(replicas) == 0:
		return failed(kerr.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	case len(replicas) != factor:
		return failed(kerr.InvalidReplicaAssignment, fmt.Sprintf("The manual partition assignment includes a partition with "+
			"%d replica(s), but this is not consistent with previous partitions, which have %d replica(s).", len(replicas), factor))
	}
	sorted := slices.Sorted(slices.Values(replicas))
	if sorted[0] < 0 {
		return failed(kerr.InvalidReplicaAssignment, fmt.Sprintf("The manual partition assignment includes broker %d, "+
			"but no such broker is registered.", sorted[0]))
	}
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return failed(kerr.InvalidReplicaAssignment, fmt.Sprintf("The manual partition assignment includes the broker %d more than once.", sorted[i]))
		}
	}
	return nil
}

func newTopicConfigs(in []kmsg.CreateTopicsRequestTopicConfig) (map[string]string, *apiError) {
	configs := map[string]string{}
	var null []string
	for _, c := range in {
		if c.Value == nil {
			null = append(null, c.Name)
			continue
		}
		configs[c.Name] = *c.Value
	}
	if len(null) > 0 {
		return nil, failed(kerr.InvalidConfig, "Null value not supported for topic configs: "+strings.Join(null, ","))
	}
	return configs, nil
}

// newTopicID is a random UUID (version 4). Like Kafka's, its base64 form does not begin with a dash, which command
// line tools would take for an option.
func newTopicID() id.Topic {
	for {
		var t id.Topic
		_, _ = rand.Read(t[:]) // never fails (crypto/rand)
		t[6], t[8] = t[6]&0x0f|0x40, t[8]&0x3f|0x80
		if t[0]>>2 != 62 { // '-' in URL-safe base64
			return t
		}
	}
}

// proposeTopics creates the topics without an error.
func (c *call) proposeTopics(ctx context.Context, topics []newTopic) error {
	var commands []metadata.Command
	var places []int
	for i := range topics {
		if topics[i].err == nil {
			commands, places = append(commands, topics[i].command), append(places, i)
		}
	}
	results, err := c.propose(ctx, commands...)
	for i, r := range results {
		topics[places[i]].err = commandError(r.Err)
	}
	return err
}

// createdTopic returns the answer about a topic. withConfigs lists its configs, which versions below 5 lack.
func createdTopic(n *newTopic, brokers map[string]string, withConfigs bool) kmsg.CreateTopicsResponseTopic {
	out, t := kmsg.NewCreateTopicsResponseTopic(), n.command
	out.Topic, out.ErrorCode, out.ErrorMessage = n.name, n.err.code(), n.err.text()
	if n.err != nil {
		return out
	}
	out.TopicID = t.ID
	out.NumPartitions, out.ReplicationFactor = t.Partitions, t.ReplicationFactor
	if !withConfigs {
		return out
	}
	for _, d := range topicconfig.All() {
		entry := kmsg.NewCreateTopicsResponseTopicConfig()
		entry.Name, entry.Value = d.Name, kmsg.StringPtr(topicconfig.Effective(t.Configs, brokers, d.Name))
		entry.Source = int8(topicConfigSource(&d, t.Configs, brokers))
		out.Configs = append(out.Configs, entry)
	}
	return out
}
