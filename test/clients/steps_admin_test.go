package clients

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/brokerconfig"
)

// elr is why min.insync.replicas differs.
const elr = "Kafka sets the cluster's default of min.insync.replicas by itself (KIP-966)"

// effective is the difference of topic configs that elr makes.
func effective(st step) step {
	st.differs = map[string]string{`.*Configs\[min.insync.replicas\].(Source|ConfigSynonyms#)`: elr}
	return st
}

func topicSteps() []step {
	create := func(name string, topics func(version int16) []kmsg.CreateTopicsRequestTopic, validate bool) step {
		return step{name: name, req: func(_ *side, version int16) kmsg.Request {
			req := kmsg.NewPtrCreateTopicsRequest()
			req.TimeoutMillis, req.ValidateOnly, req.Topics = 30_000, validate, topics(version)
			return req
		}}
	}
	one := func(name string, topic kmsg.CreateTopicsRequestTopic) step {
		return create(name, func(int16) []kmsg.CreateTopicsRequestTopic { return []kmsg.CreateTopicsRequestTopic{topic} }, false)
	}
	with := func(topic kmsg.CreateTopicsRequestTopic, change func(*kmsg.CreateTopicsRequestTopic)) kmsg.CreateTopicsRequestTopic {
		change(&topic)
		return topic
	}
	assigned := func(topic kmsg.CreateTopicsRequestTopic, partitions ...int32) kmsg.CreateTopicsRequestTopic {
		topic.NumPartitions, topic.ReplicationFactor = -1, -1
		for _, p := range partitions {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition, a.Replicas = p, []int32{1}
			topic.ReplicaAssignment = append(topic.ReplicaAssignment, a)
		}
		return topic
	}
	nullValue := newTopic("null-value", 1)
	nullValue.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms"}}
	replicas := one("more replicas than brokers", with(newTopic("replicated", 1), func(t *kmsg.CreateTopicsRequestTopic) { t.ReplicationFactor = 3 }))
	replicas.versions = only(4)
	replicas.differs = map[string]string{`Topics\[replicated\].*`: "the object store replicates"}
	return append([]step{
		replicas,
		effective(create("new", func(v int16) []kmsg.CreateTopicsRequestTopic {
			return []kmsg.CreateTopicsRequestTopic{newTopic(fmt.Sprint("new-", v), 2, "retention.ms", "1000")}
		}, false)),
		effective(create("only validated", func(int16) []kmsg.CreateTopicsRequestTopic {
			return []kmsg.CreateTopicsRequestTopic{newTopic("never", 2)}
		}, true)),
		one("exists", newTopic("plain", 1)),
		one("bad characters", newTopic("a b", 1)), one("dots", newTopic("..", 1)), one("empty name", newTopic("", 1)),
		one("long name", newTopic(fmt.Sprintf("%0250d", 0), 1)),
		one("no partitions", newTopic("t", 0)), one("negative partitions", newTopic("t", -2)),
		one("default partitions", with(newTopic("plain", -1), func(*kmsg.CreateTopicsRequestTopic) {})),
		one("no replicas", with(newTopic("t", 1), func(t *kmsg.CreateTopicsRequestTopic) { t.ReplicationFactor = 0 })),
		one("negative replicas", with(newTopic("t", 1), func(t *kmsg.CreateTopicsRequestTopic) { t.ReplicationFactor = -2 })),
		one("unknown config", newTopic("t", 1, "bogus", "1")),
		one("removed config", newTopic("t", 1, "message.format.version", "3.0")),
		one("bad config", newTopic("t", 1, "retention.ms", "soon")),
		one("config out of range", newTopic("t", 1, "retention.ms", "-5")),
		one("configs in conflict", newTopic("t", 1, "min.compaction.lag.ms", "10", "max.compaction.lag.ms", "5")),
		one("null config", nullValue),
		create("twice in one request", func(int16) []kmsg.CreateTopicsRequestTopic {
			return []kmsg.CreateTopicsRequestTopic{newTopic("t", 1), newTopic("t", 1)}
		}, false),
		create("none", func(int16) []kmsg.CreateTopicsRequestTopic { return nil }, false),
		one("assigned with a gap", assigned(newTopic("t", 1), 0, 2)),
		one("assigned with a count", with(assigned(newTopic("t", 1), 0), func(t *kmsg.CreateTopicsRequestTopic) { t.NumPartitions = 1 })),
		one("assigned twice", assigned(newTopic("t", 1), 0, 0)),
	}, append(partitionSteps(), deleteSteps()...)...)
}

func partitionSteps() []step {
	grow := func(name, topic string, count int32, validate bool, assignments ...[]int32) step {
		return step{name: name, req: func(*side, int16) kmsg.Request {
			req := kmsg.NewPtrCreatePartitionsRequest()
			req.TimeoutMillis, req.ValidateOnly = 30_000, validate
			t := kmsg.NewCreatePartitionsRequestTopic()
			t.Topic, t.Count = topic, count
			for _, replicas := range assignments {
				t.Assignment = append(t.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: replicas})
			}
			req.Topics = append(req.Topics, t)
			return req
		}}
	}
	twice := grow("grow twice in one request", "plain", 5, true)
	twice.req = func(*side, int16) kmsg.Request {
		req := kmsg.NewPtrCreatePartitionsRequest()
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = "plain", 5
		req.TimeoutMillis, req.Topics = 30_000, append(req.Topics, t, t)
		return req
	}
	once := grow("grow", "doomed", 4, false)
	once.versions = only(3)
	return []step{
		grow("shrink", "plain", 2, false), grow("grow to the same", "plain", 3, false), grow("grow to none", "plain", 0, false),
		grow("grow unknown", "unknown", 3, false), grow("grow, only validated", "plain", 5, true), twice, once,
		grow("grow with too few assigned", "plain", 5, true, []int32{1}),
		grow("grow with an empty assignment", "plain", 4, true, []int32{}),
	}
}

func deleteSteps() []step {
	byName := func(name string, topics ...string) step {
		return step{name: name, req: func(_ *side, version int16) kmsg.Request {
			req := kmsg.NewPtrDeleteTopicsRequest()
			req.TimeoutMillis = 30_000
			for _, topic := range topics {
				if version < 6 {
					req.TopicNames = append(req.TopicNames, topic)
					continue
				}
				t := kmsg.NewDeleteTopicsRequestTopic()
				t.Topic = &topic
				req.Topics = append(req.Topics, t)
			}
			return req
		}}
	}
	byID := func(name string, topics func(s *side) []kmsg.DeleteTopicsRequestTopic) step {
		return step{name: name, versions: only(6), req: func(s *side, _ int16) kmsg.Request {
			req := kmsg.NewPtrDeleteTopicsRequest()
			req.TimeoutMillis, req.Topics = 30_000, topics(s)
			return req
		}}
	}
	id := func(name *string, id [16]byte) kmsg.DeleteTopicsRequestTopic {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic, t.TopicID = name, id
		return t
	}
	plain := "plain"
	return []step{
		byName("delete unknown", "unknown"), byName("delete a bad name", "a b"), byName("delete none"),
		byName("delete twice in one request", "unknown", "unknown"),
		byID("delete unknown id", func(*side) []kmsg.DeleteTopicsRequestTopic {
			return []kmsg.DeleteTopicsRequestTopic{id(nil, unknownID())}
		}),
		byID("delete name and id", func(s *side) []kmsg.DeleteTopicsRequestTopic {
			return []kmsg.DeleteTopicsRequestTopic{id(&plain, s.ids["plain"])}
		}),
		byID("delete neither", func(*side) []kmsg.DeleteTopicsRequestTopic {
			return []kmsg.DeleteTopicsRequestTopic{id(nil, [16]byte{})}
		}),
		byID("delete by id", func(s *side) []kmsg.DeleteTopicsRequestTopic {
			return []kmsg.DeleteTopicsRequestTopic{id(nil, s.ids["doomed"])}
		}),
		byID("delete it again", func(s *side) []kmsg.DeleteTopicsRequestTopic {
			return []kmsg.DeleteTopicsRequestTopic{id(nil, s.ids["doomed"])}
		}),
		byName("delete it by name", "doomed"),
	}
}

func configSteps() []step {
	return append(describeConfigSteps(), alterConfigSteps()...)
}

func describeConfigSteps() []step {
	describe := func(name string, kind kmsg.ConfigResourceType, resource func(s *side) string, names ...string) step {
		return step{name: name, settles: true, req: func(s *side, _ int16) kmsg.Request {
			req := kmsg.NewPtrDescribeConfigsRequest()
			req.IncludeSynonyms = true
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName, r.ConfigNames = kind, resource(s), names
			req.Resources = append(req.Resources, r)
			return req
		}}
	}
	named := func(name string) func(*side) string { return func(*side) string { return name } }
	defaults := describe("the cluster's defaults", kmsg.ConfigResourceTypeBroker, named(""))
	defaults.differs = map[string]string{`Resources\[\].Configs(#|\[min.insync.replicas\].*)`: elr}
	broker := describe("some of the broker", kmsg.ConfigResourceTypeBroker, func(s *side) string { return fmt.Sprint(s.broker) },
		"message.max.bytes", "log.retention.ms", "num.partitions", "log.cleanup.policy", "delete.topic.enable")
	broker.differs = map[string]string{
		`.*Configs\[log.retention.ms\].Value`: "what counts is shown; Kafka has it in hours elsewhere",
		`.*Configs\[num.partitions\].*Source`: "the control plane is told, by a flag",
	}
	var names []string
	for _, d := range brokerconfig.All() {
		if d.Name != brokerconfig.InterBrokerProtocolVersion { // Kafka 4.0 removed it
			names = append(names, d.Name)
		}
	}
	coordinators := describe("the coordinators of the broker", kmsg.ConfigResourceTypeBroker, func(s *side) string { return fmt.Sprint(s.broker) }, names...)
	coordinators.differs = map[string]string{
		`.*Configs\[(group.consumer.assignment.interval|producer.id.expiration).ms\].ReadOnly`: "a flag, and a part of the state machine",
	}
	return []step{
		effective(describe("a topic", kmsg.ConfigResourceTypeTopic, named("window"))),
		describe("some of a topic", kmsg.ConfigResourceTypeTopic, named("window"), "retention.ms", "cleanup.policy", "bogus"),
		describe("an unknown topic", kmsg.ConfigResourceTypeTopic, named("unknown")),
		describe("a bad name", kmsg.ConfigResourceTypeTopic, named("a b")),
		describe("an unknown broker", kmsg.ConfigResourceTypeBroker, named("99")),
		describe("a broker that is no number", kmsg.ConfigResourceTypeBroker, named("x")),
		defaults, broker, coordinators,
		describe("a resource that does not exist", 77, named("x")),
	}
}

func alterConfigSteps() []step {
	type op = kmsg.IncrementalAlterConfigsRequestResourceConfig
	alter := func(name string, kind kmsg.ConfigResourceType, resource string, ops ...op) step {
		return step{name: name, req: func(*side, int16) kmsg.Request {
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			r := kmsg.NewIncrementalAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName, r.Configs = kind, resource, ops
			req.Resources = append(req.Resources, r)
			return req
		}}
	}
	topic := func(name, resource string, ops ...op) step {
		return alter(name, kmsg.ConfigResourceTypeTopic, resource, ops...)
	}
	set := func(name, value string) op { return op{Name: name, Value: &value} }
	with := func(o kmsg.IncrementalAlterConfigOp, c op) op { c.Op = o; return c }
	const add, remove, del = kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract, kmsg.IncrementalAlterConfigOpDelete
	replace := func(name, resource string, values ...string) step {
		return step{name: name, req: func(*side, int16) kmsg.Request {
			req := kmsg.NewPtrAlterConfigsRequest()
			r := kmsg.NewAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, resource
			for i := 0; i < len(values); i += 2 {
				r.Configs = append(r.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: values[i], Value: &values[i+1]})
			}
			req.Resources = append(req.Resources, r)
			return req
		}}
	}
	const throttled = "leader.replication.throttled.replicas"
	replicas := func(first int) string { // 32,000 bytes
		var list []string
		for i := range 4000 {
			list = append(list, strconv.Itoa(first+i)+":1")
		}
		return strings.Join(list, ",")
	}
	operation := topic("no such operation", "plain", with(9, set("retention.ms", "1")))
	operation.differs = map[string]string{`Resources\[plain\].ErrorCode`: clearerCode}
	bogus := alter("unknown broker config", kmsg.ConfigResourceTypeBroker, "", set("bogus.config", "1"))
	bogus.differs = map[string]string{`Resources\[\].ErrorCode`: "Kafka keeps any name for its plugins; here an unknown one is an error"}
	return []step{
		topic("set", "plain", set("retention.ms", "5000")),
		topic("set unknown", "plain", set("bogus", "1")),
		topic("set badly", "plain", set("retention.ms", "soon")),
		topic("set out of range", "plain", set("cleanup.policy", "keep")),
		topic("set null", "plain", op{Name: "retention.ms"}),
		topic("set of an unknown topic", "unknown", set("retention.ms", "5000")),
		topic("set of a bad name", "a b", set("retention.ms", "5000")),
		topic("set twice", "plain", set("retention.ms", "1"), set("retention.ms", "2")),
		topic("append", "plain", with(add, set("cleanup.policy", "compact"))),
		topic("append again", "plain", with(add, set("cleanup.policy", "compact"))),
		topic("append what is not allowed", "plain", with(add, set("cleanup.policy", "keep"))),
		topic("subtract", "plain", with(remove, set("cleanup.policy", "compact"))),
		topic("append many", "plain", with(add, set(throttled, replicas(10_000)))),
		topic("append beyond the longest value", "plain", with(add, set(throttled, replicas(20_000)))),
		topic("subtract many", "plain", with(remove, set(throttled, replicas(10_001)))),
		topic("append to a number", "plain", with(add, set("retention.ms", "1"))),
		topic("delete", "plain", with(del, set("retention.ms", ""))),
		topic("delete what is not set", "plain", with(del, set("flush.ms", ""))),
		topic("delete unknown", "plain", with(del, set("bogus", ""))),
		operation,
		alter("no such resource", 77, "x", set("retention.ms", "1")),
		bogus,
		alter("broker that is no number", kmsg.ConfigResourceTypeBroker, "x", set("log.retention.ms", "1")),
		replace("replace", "plain", "retention.bytes", "5"),
		replace("replace unknown", "plain", "bogus", "5"),
		replace("replace of an unknown topic", "unknown", "retention.bytes", "5"),
		describeOf("plain"),
	}
}

// describeOf describes a topic after changes.
func describeOf(topic string) step {
	return effective(step{name: "describe what was set", settles: true, req: func(*side, int16) kmsg.Request {
		req := kmsg.NewPtrDescribeConfigsRequest()
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
		req.Resources = append(req.Resources, r)
		return req
	}})
}
