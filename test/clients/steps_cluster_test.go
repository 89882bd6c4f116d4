package clients

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func apiVersionsSteps() []step {
	software := func(name, version string) func(*side, int16) kmsg.Request {
		return func(*side, int16) kmsg.Request {
			req := kmsg.NewPtrApiVersionsRequest()
			req.ClientSoftwareName, req.ClientSoftwareVersion = name, version
			return req
		}
	}
	// expected names the cluster and node that a client means to reach (KIP-1242).
	expected := func(cluster func(*side) *string, node func(*side) int32) func(*side, int16) kmsg.Request {
		return func(s *side, _ int16) kmsg.Request {
			req := software("x", "1.0")(s, 0).(*kmsg.ApiVersionsRequest)
			req.ClusterID, req.NodeID = cluster(s), node(s)
			return req
		}
	}
	own, other, none := func(s *side) *string { return &s.cluster }, func(*side) *string { return kmsg.StringPtr("other") }, func(*side) *string { return nil }
	broker, stranger, unknown := func(s *side) int32 { return s.broker }, func(*side) int32 { return 777 }, func(*side) int32 { return -1 }
	listed := map[string]string{
		`ApiKeys(#|\[.*)`:                       "the version table says what is not served, and why",
		`(Supported|Finalized)Features(#|\[.*)`: "features of Kafka's own upgrades are not shown",
	}
	return []step{
		{name: "bad software name", versions: only(3, 4, 5), req: software("", "1")},
		{name: "bad software version", versions: only(3, 4, 5), req: software("x", "-")},
		{name: "supported", req: software("x", "1.0"), differs: listed},
		{name: "the cluster and node expected", versions: only(5), req: expected(own, broker), differs: listed},
		{name: "another cluster", versions: only(5), req: expected(other, broker)},
		{name: "a cluster without node", versions: only(5), req: expected(own, unknown)},
		{name: "a node without cluster", versions: only(5), req: expected(none, broker)},
		{name: "another node", versions: only(5), req: expected(own, stranger), differs: map[string]string{
			`ErrorCode|FinalizedFeaturesEpoch|(ApiKeys|SupportedFeatures|FinalizedFeatures)(#|\[.*)`: "agents share addresses, and a node moves between them",
		}},
	}
}

func metadataSteps() []step {
	topics := func(names ...string) func(*side, int16) kmsg.Request {
		return func(*side, int16) kmsg.Request {
			req := kmsg.NewPtrMetadataRequest()
			for i := range names {
				topic := kmsg.NewMetadataRequestTopic()
				topic.Topic = &names[i]
				req.Topics = append(req.Topics, topic)
			}
			return req
		}
	}
	byID := func(id func(s *side) [16]byte) func(*side, int16) kmsg.Request {
		return func(s *side, _ int16) kmsg.Request {
			req := kmsg.NewPtrMetadataRequest()
			topic := kmsg.NewMetadataRequestTopic()
			topic.TopicID = id(s)
			req.Topics = append(req.Topics, topic)
			return req
		}
	}
	return []step{
		{name: "all", req: topics()},
		{name: "some", req: topics("plain", "read")},
		{name: "a topic twice", req: topics("plain", "plain")},
		{name: "unknown", req: topics("unknown", "plain")},
		{name: "bad names", req: topics("a b", "..", "")},
		{name: "by id", versions: from(kmsg.Metadata, 12), req: byID(func(s *side) [16]byte { return s.ids["plain"] })},
		{name: "unknown id", versions: from(kmsg.Metadata, 12), req: byID(func(*side) [16]byte { return unknownID() })},
		{name: "none", versions: from(kmsg.Metadata, 1), req: func(*side, int16) kmsg.Request {
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = []kmsg.MetadataRequestTopic{}
			return req
		}},
		{name: "with authorized operations", versions: from(kmsg.Metadata, 8), req: func(*side, int16) kmsg.Request {
			req := kmsg.NewPtrMetadataRequest()
			req.IncludeTopicAuthorizedOperations, req.IncludeClusterAuthorizedOperations = true, true
			return req
		}},
		{name: "create what is not there", req: func(*side, int16) kmsg.Request {
			req := kmsg.NewPtrMetadataRequest()
			name := "not-created"
			topic := kmsg.NewMetadataRequestTopic()
			topic.Topic = &name
			req.Topics, req.AllowAutoTopicCreation = append(req.Topics, topic), true
			return req
		}},
	}
}

func clusterSteps() []step {
	initProducer := func(change func(*kmsg.InitProducerIDRequest)) func(*side, int16) kmsg.Request {
		return func(*side, int16) kmsg.Request {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.ProducerID, req.ProducerEpoch = -1, -1
			change(req)
			return req
		}
	}
	partitions := func(limit int32, cursor *kmsg.DescribeTopicPartitionsRequestCursor, names ...string) func(*side, int16) kmsg.Request {
		return func(*side, int16) kmsg.Request {
			req := kmsg.NewPtrDescribeTopicPartitionsRequest()
			req.ResponsePartitionLimit, req.Cursor = limit, cursor
			for _, name := range names {
				topic := kmsg.NewDescribeTopicPartitionsRequestTopic()
				topic.Topic = name
				req.Topics = append(req.Topics, topic)
			}
			return req
		}
	}
	cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
	cursor.Topic, cursor.Partition = "plain", 1
	foreign := kmsg.NewDescribeTopicPartitionsRequestCursor()
	foreign.Topic, foreign.Partition = "read", -1
	logDirsOf := func(topics ...kmsg.DescribeLogDirsRequestTopic) func(*side, int16) kmsg.Request {
		return func(*side, int16) kmsg.Request {
			req := kmsg.NewPtrDescribeLogDirsRequest()
			req.Topics = topics
			return req
		}
	}
	logDirs := func(topic string, partitions ...int32) func(*side, int16) kmsg.Request {
		return logDirsOf(kmsg.DescribeLogDirsRequestTopic{Topic: topic, Partitions: partitions})
	}
	twice := kmsg.DescribeLogDirsRequestTopic{Topic: "plain", Partitions: []int32{0, 0}}
	noVolume := map[string]string{`Dirs\[0\].(Total|Usable)Bytes`: "an object store has no size"}
	return []step{
		{name: "a producer id", req: initProducer(func(*kmsg.InitProducerIDRequest) {})},
		{name: "a producer id to keep", versions: from(kmsg.InitProducerID, 3), req: initProducer(func(r *kmsg.InitProducerIDRequest) {
			r.ProducerID, r.ProducerEpoch = 5, 0
		})},
		{name: "a producer id without its epoch", versions: from(kmsg.InitProducerID, 3), req: initProducer(func(r *kmsg.InitProducerIDRequest) {
			r.ProducerID = 5
		})},
		{name: "empty transactional id", req: initProducer(func(r *kmsg.InitProducerIDRequest) { r.TransactionalID = new("") })},
		{name: "describe cluster", req: func(*side, int16) kmsg.Request { return kmsg.NewPtrDescribeClusterRequest() }},
		{name: "describe controllers", versions: from(kmsg.DescribeCluster, 1), req: func(*side, int16) kmsg.Request {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.EndpointType = 2
			return req
		}},
		{name: "describe no endpoint type", versions: from(kmsg.DescribeCluster, 1), req: func(*side, int16) kmsg.Request {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.EndpointType = 3
			return req
		}},
		{name: "partitions of topics", req: partitions(2000, nil, "read", "plain", "unknown", "a b")},
		{name: "partitions, paged", req: partitions(2, nil, "plain", "read")},
		{name: "partitions, next page", req: partitions(2, &cursor, "plain", "read")},
		{name: "partitions, bad cursor", req: partitions(2, &foreign, "plain", "read")},
		{name: "partitions, no limit", req: partitions(0, nil, "plain")},
		{name: "log dirs of a topic", req: logDirs("plain", 0), differs: noVolume},
		{name: "log dirs of a topic twice", req: logDirsOf(twice, twice), differs: noVolume},
		{name: "log dirs of no topic", req: logDirs("unknown", 0), differs: noVolume},
		{name: "log dirs out of range", req: logDirs("plain", 9), differs: noVolume},
	}
}
