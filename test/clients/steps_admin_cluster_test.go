package clients

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// always gives steps the same request on both sides and in every version.
func always(name string, req func() kmsg.Request) step {
	return step{name: name, req: func(*side, int16) kmsg.Request { return req() }}
}

// differing lists a step's differences.
func differing(st step, pattern, why string) step {
	st.differs = map[string]string{pattern: why}
	return st
}

// deleteRecordSteps come after those that need what they delete.
func deleteRecordSteps() []step {
	deleteUpTo := func(name, topic string, partition int32, offset int64) step {
		return always(name, func() kmsg.Request { return deleteRecords(topic, partition, offset) })
	}
	produced := step{name: "produce what is deleted", versions: only(9), req: func(s *side, _ int16) kmsg.Request {
		return produceTo("empty", s.ids["empty"], 0, batchSpec{}.raw())
	}}
	fetched := step{name: "fetch what is deleted", versions: only(12), req: func(s *side, _ int16) kmsg.Request {
		return fetchFrom("empty", s.ids["empty"], 0, 0)
	}}
	return []step{
		produced,
		deleteUpTo("delete up to an offset", "empty", 0, 1), deleteUpTo("delete what is deleted", "empty", 0, 0),
		deleteUpTo("delete all", "empty", 0, -1), deleteUpTo("delete up to a bad offset", "empty", 0, -2),
		deleteUpTo("delete more than there is", "empty", 0, 1<<40), deleteUpTo("delete of no partition", "empty", 9, 0),
		deleteUpTo("delete of no topic", "unknown", 0, 0), deleteUpTo("delete of a compacted topic", "compacted", 0, 0),
		always("delete of a partition twice", func() kmsg.Request {
			req := deleteRecords("empty", 0, 1<<40)
			req.Topics = append(req.Topics, deleteRecords("unknown", 0, 0).Topics[0], deleteRecords("empty", 0, 0).Topics[0])
			return req
		}),
		always("delete nothing", func() kmsg.Request { return kmsg.NewPtrDeleteRecordsRequest() }),
		{name: "the log start", versions: from(kmsg.ListOffsets, 1), req: func(*side, int16) kmsg.Request { return listOffset("empty", 0, -2) }},
		fetched,
	}
}

func deleteRecords(topic string, partition int32, offset int64) *kmsg.DeleteRecordsRequest {
	req, t := kmsg.NewPtrDeleteRecordsRequest(), kmsg.NewDeleteRecordsRequestTopic()
	t.Topic, t.Partitions = topic, []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: offset}}
	req.TimeoutMillis, req.Topics = 30_000, append(req.Topics, t)
	return req
}

func replicaSteps() []step {
	elect := func(name string, kind int8, topics ...kmsg.ElectLeadersRequestTopic) step {
		return always(name, func() kmsg.Request { return electLeaders(kind, topics...) })
	}
	named := func(topic string, partitions ...int32) kmsg.ElectLeadersRequestTopic {
		return kmsg.ElectLeadersRequestTopic{Topic: topic, Partitions: partitions}
	}
	noSuchKind := elect("elect in no way", 7, named("plain", 0))
	noSuchKind.versions = from(kmsg.ElectLeaders, 1)
	reassign := func(name string, otherFactor bool, topic string, partition int32, replicas []int32) step {
		return always(name, func() kmsg.Request { return reassignment(topic, partition, replicas, otherFactor) })
	}
	move := func(name, dir, topic string, partitions ...int32) step {
		return always(name, func() kmsg.Request {
			req := kmsg.NewPtrAlterReplicaLogDirsRequest()
			req.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: dir, Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: topic, Partitions: partitions}}}}
			return req
		})
	}
	return []step{
		elect("elect preferred leaders", 0, named("plain", 0, 9), named("unknown", 0)), elect("elect any leaders", 1, named("plain", 0, 0)), noSuchKind,
		differing(elect("elect all leaders", 0), `Topics(#|\[replicated\].*)`, "the object store replicates: there is a topic more"),
		reassign("reassign to where it is", true, "plain", 0, []int32{1}), reassign("reassign to nowhere", true, "plain", 0, []int32{}),
		reassign("cancel a reassignment", true, "plain", 0, nil), reassign("reassign to one twice", true, "plain", 0, []int32{1, 1}),
		reassign("reassign to a bad broker", true, "plain", 0, []int32{-1}), reassign("reassign no partition", true, "plain", 9, []int32{1}),
		reassign("reassign no topic", true, "unknown", 0, []int32{1}),
		differing(reassign("reassign to an unknown broker", true, "plain", 0, []int32{99}), `Topics\[plain\].*Error(Code|Message)`, "any agent serves any partition"),
		always("list all reassignments", func() kmsg.Request { return kmsg.NewPtrListPartitionReassignmentsRequest() }),
		always("list reassignments", func() kmsg.Request {
			req := kmsg.NewPtrListPartitionReassignmentsRequest()
			req.Topics = []kmsg.ListPartitionReassignmentsRequestTopic{{Topic: "plain", Partitions: []int32{0}}, {Topic: "unknown", Partitions: []int32{0}}}
			return req
		}),
		move("move to no directory", "/nowhere", "plain", 0), move("move no topic to no directory", "/nowhere", "unknown", 0),
	}
}

func electLeaders(kind int8, topics ...kmsg.ElectLeadersRequestTopic) *kmsg.ElectLeadersRequest {
	req := kmsg.NewPtrElectLeadersRequest()
	req.ElectionType, req.Topics, req.TimeoutMillis = kind, topics, 30_000
	return req
}

func reassignment(topic string, partition int32, replicas []int32, otherFactor bool) *kmsg.AlterPartitionAssignmentsRequest {
	req, t := kmsg.NewPtrAlterPartitionAssignmentsRequest(), kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic = topic
	t.Partitions = []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: partition, Replicas: replicas}}
	req.TimeoutMillis, req.AllowReplicationFactorChange, req.Topics = 30_000, otherFactor, append(req.Topics, t)
	return req
}

func quorumSteps() []step {
	quorum := func(name, topic string, partitions ...int32) step {
		return always(name, func() kmsg.Request { return describeQuorum(topic, partitions...) })
	}
	update := func(name, feature string, level int16, kind int8, validate bool) step {
		return step{name: name, versions: from(kmsg.UpdateFeatures, 1), req: func(*side, int16) kmsg.Request {
			return updateFeature(feature, level, kind, validate)
		}}
	}
	list := func(name string, types ...int8) step {
		return step{name: name, versions: only(1), settles: true, req: func(*side, int16) kmsg.Request {
			req := kmsg.NewPtrListConfigResourcesRequest()
			req.ResourceTypes = types
			return req
		}}
	}
	return []step{
		differing(quorum("the quorum", "__cluster_metadata", 0), `(.*(HighWatermark|LogEndOffset|Timestamp|Listeners.*))`,
			"the metadata log is in etcd: other offsets, times and addresses"),
		quorum("no partition of the quorum", "__cluster_metadata", 1), quorum("the quorum of a topic", "plain", 0), quorum("two partitions", "__cluster_metadata", 0, 1),
		update("a level that is spoken", "metadata.version", 33, 1, false), update("a level beyond", "metadata.version", 99, 1, false),
		update("a negative level", "metadata.version", -1, 1, false), update("no such feature", "bogus.version", 1, 1, false),
		update("no such kind of change", "metadata.version", 33, 9, false),
		update("a lower level of metadata, only validated", "metadata.version", 32, 2, true),
		differing(update("a lower level, only validated", "group.version", 0, 2, true), `(ErrorCode|ErrorMessage|Results.*)`,
			"levels change with the release"),
		always("unregister an unknown broker", func() kmsg.Request {
			req := kmsg.NewPtrUnregisterBrokerRequest()
			req.BrokerID = 77
			return req
		}),
		{name: "list client metrics resources", versions: only(0), settles: true, req: func(*side, int16) kmsg.Request {
			return kmsg.NewPtrListConfigResourcesRequest()
		}},
		list("list groups and client metrics", 16, 32), list("list no type", 77),
	}
}

func describeQuorum(topic string, partitions ...int32) *kmsg.DescribeQuorumRequest {
	req, t := kmsg.NewPtrDescribeQuorumRequest(), kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = topic
	for _, p := range partitions {
		t.Partitions = append(t.Partitions, kmsg.DescribeQuorumRequestTopicPartition{Partition: p})
	}
	req.Topics = append(req.Topics, t)
	return req
}

func updateFeature(name string, level int16, kind int8, validate bool) *kmsg.UpdateFeaturesRequest {
	req, u := kmsg.NewPtrUpdateFeaturesRequest(), kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = name, level, kind
	req.TimeoutMillis, req.ValidateOnly, req.FeatureUpdates = 30_000, validate, append(req.FeatureUpdates, u)
	return req
}

// resourceSteps are about configs of what is neither topic nor broker.
func resourceSteps() []step {
	const group, metrics, logger = kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeBrokerLogger
	describe := func(name string, kind kmsg.ConfigResourceType, resource string) step {
		return step{name: name, settles: true, req: func(*side, int16) kmsg.Request {
			req, r := kmsg.NewPtrDescribeConfigsRequest(), kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName = kind, resource
			req.IncludeSynonyms, req.Resources = true, append(req.Resources, r)
			return req
		}}
	}
	alter := func(kind kmsg.ConfigResourceType, resource, name string, op kmsg.IncrementalAlterConfigOp, value string) step {
		return always(fmt.Sprintf("%s of %q: %s %s %q", kind, resource, op, name, value), func() kmsg.Request {
			req, r := kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewIncrementalAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = kind, resource
			r.Configs = append(r.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: name, Op: op, Value: &value})
			req.Resources = append(req.Resources, r)
			return req
		})
	}
	const set, add, del = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpDelete
	return []step{
		describe("a group without configs", group, "g0"), describe("no group", group, ""),
		alter(group, "g", "consumer.session.timeout.ms", set, "50000"), alter(group, "g", "consumer.session.timeout.ms", set, "5"),
		alter(group, "g", "consumer.session.timeout.ms", set, "soon"), alter(group, "g", "consumer.heartbeat.interval.ms", set, "50000"),
		alter(group, "g", "share.auto.offset.reset", set, "by_duration:PT1H"), alter(group, "g", "share.auto.offset.reset", set, "bogus"),
		alter(group, "g", "bogus", set, "1"), alter(group, "", "consumer.session.timeout.ms", set, "50000"),
		alter(group, "g", "consumer.session.timeout.ms", add, "1"), alter(group, "g", "streams.num.standby.replicas", set, "3"),
		describe("a group with configs", group, "g"),
		describe("no subscription", metrics, ""), describe("a subscription without configs", metrics, "m0"),
		alter(metrics, "m", "metrics", set, "org.apache.kafka.producer."), alter(metrics, "m", "interval.ms", set, "60000"),
		alter(metrics, "m", "interval.ms", set, "50"), alter(metrics, "m", "interval.ms", set, "soon"), alter(metrics, "m", "match", set, "client_id=x.*"),
		alter(metrics, "m", "match", set, "client_id="), alter(metrics, "m", "match", set, "bogus=x"), alter(metrics, "m", "match", set, "client_id=["),
		alter(metrics, "m", "bogus", set, "1"), alter(metrics, "", "metrics", set, "x"), alter(metrics, "m", "metrics", add, "x"),
		describe("a subscription", metrics, "m"),
		alter(metrics, "m", "match", del, ""), describe("a subscription to all clients", metrics, "m"),
		describe("loggers of no node", logger, ""), describe("loggers of an unknown node", logger, "99"),
		alter(logger, "", "kafka", set, "DEBUG"), alter(logger, "99", "kafka", set, "DEBUG"),
		alter(kmsg.ConfigResourceTypeBroker, "", "log.retention.ms", set, "soon"), alter(kmsg.ConfigResourceTypeBroker, "", "node.id", set, "5"),
		alter(kmsg.ConfigResourceTypeBroker, "99", "log.retention.ms", set, "5"),
	}
}
