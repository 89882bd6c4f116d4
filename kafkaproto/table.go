package kafkaproto

// KafkaVersion is the Apache Kafka release that is the reference: the table has its API versions, and tests and benchmarks
// run its jars.
const KafkaVersion = "4.4.0"

// MaxKey is the largest API key of KafkaVersion.
const MaxKey = 94

// The keys that the protocol treats specially, or that code outside of kmsg names.
const (
	KeyProduce     int16 = 0
	KeyMetadata    int16 = 3
	KeyApiVersions int16 = 18
)

// never marks an API without flexible versions.
const never = int16(1<<15 - 1)

// By says who answers an API.
type By uint8

const (
	// ByNobody marks an API that is not served: it is not advertised, and a request of it closes the connection.
	ByNobody By = iota
	// ByAgent marks an API that the agent answers itself.
	ByAgent
	// ByControlPlane marks an API that the agent forwards to the owner of the virtual cluster.
	ByControlPlane
)

// String names the answering part as the docs do.
func (b By) String() string {
	switch b {
	case ByAgent:
		return "agent"
	case ByControlPlane:
		return "control plane"
	default:
		return "not served"
	}
}

// Versions is a range of API versions, both inclusive.
type Versions struct{ Min, Max int16 }

// None is the empty range.
var None = Versions{0, -1}

// Has tells whether v is in the range.
func (vs Versions) Has(v int16) bool { return vs.Min <= v && v <= vs.Max }

// Empty tells whether the range has no version.
func (vs Versions) Empty() bool { return vs.Max < vs.Min }

// Entry is one API of KafkaVersion.
type Entry struct {
	Key  int16
	Name string
	// Kafka is what a broker of KafkaVersion advertises to clients; None if it does not.
	Kafka Versions
	// Served is what is answered here; None if By is ByNobody.
	Served Versions
	By     By
	// Flexible is the first version with flexible encoding (KIP-482).
	Flexible int16
	// Note says why Served differs from Kafka, or what is particular.
	Note string
}

// Table gives every API of KafkaVersion by key. It must not be changed.
func Table() []Entry { return table[:] }

// Lookup gives the entry of an API key; false if Kafka has no such key.
func Lookup(key int16) (Entry, bool) {
	if key < 0 || key > MaxKey {
		return Entry{}, false
	}
	return table[key], true
}

// Serves tells whether a version of an API is answered here.
func Serves(key, version int16) bool {
	return key >= 0 && key <= MaxKey && table[key].Served.Has(version)
}

// Advertised is the range that ApiVersions shows for the entry: Served, with Produce's lower end as Kafka shows it
// (KAFKA-18659: librdkafka only compresses if Produce version 0 is there; requests of 0-2 are refused).
func (e Entry) Advertised() Versions {
	if e.Key == KeyProduce {
		return Versions{e.Kafka.Min, e.Served.Max}
	}
	return e.Served
}

// IsFlexible tells whether the request and response of a version have flexible encoding (KIP-482).
func (e Entry) IsFlexible(version int16) bool { return version >= e.Flexible }

// table is indexed by key. Its Kafka and Flexible columns are those of the message definitions in the kafka-clients
// jar of KafkaVersion, without unstable versions and controller-only APIs.
var table = [MaxKey + 1]Entry{
	{0, "Produce", Versions{0, 13}, Versions{3, 13}, ByAgent, 9, "0-2 are advertised as Kafka does so that librdkafka compresses (KAFKA-18659), and refused"},
	{1, "Fetch", Versions{4, 18}, Versions{4, 18}, ByAgent, 12, ""},
	{2, "ListOffsets", Versions{1, 11}, Versions{1, 11}, ByAgent, 6, ""},
	{3, "Metadata", Versions{0, 13}, Versions{0, 13}, ByAgent, 9, ""},
	{4, "LeaderAndIsr", None, None, ByNobody, never, "removed in Kafka 4.0 (KIP-896)"},
	{5, "StopReplica", None, None, ByNobody, never, "removed in Kafka 4.0 (KIP-896)"},
	{6, "UpdateMetadata", None, None, ByNobody, never, "removed in Kafka 4.0 (KIP-896)"},
	{7, "ControlledShutdown", None, None, ByNobody, never, "removed in Kafka 4.0 (KIP-896)"},
	{8, "OffsetCommit", Versions{2, 10}, Versions{2, 10}, ByControlPlane, 8, ""},
	{9, "OffsetFetch", Versions{1, 10}, Versions{1, 10}, ByControlPlane, 6, ""},
	{10, "FindCoordinator", Versions{0, 6}, Versions{0, 6}, ByAgent, 3, "share groups are not served"},
	{11, "JoinGroup", Versions{0, 9}, Versions{0, 9}, ByControlPlane, 6, ""},
	{12, "Heartbeat", Versions{0, 4}, Versions{0, 4}, ByControlPlane, 4, ""},
	{13, "LeaveGroup", Versions{0, 5}, Versions{0, 5}, ByControlPlane, 4, ""},
	{14, "SyncGroup", Versions{0, 5}, Versions{0, 5}, ByControlPlane, 4, ""},
	{15, "DescribeGroups", Versions{0, 6}, Versions{0, 6}, ByControlPlane, 5, ""},
	{16, "ListGroups", Versions{0, 5}, Versions{0, 5}, ByControlPlane, 3, ""},
	{17, "SaslHandshake", Versions{0, 1}, Versions{0, 1}, ByAgent, never, "no SASL listener: ILLEGAL_SASL_STATE, as Kafka without SASL"},
	{18, "ApiVersions", Versions{0, 5}, Versions{0, 5}, ByAgent, 3, "any version is answered, an unknown one in version 0 (KIP-511); 5 checks the cluster id, not the node id (KIP-1242): agents share addresses"},
	{19, "CreateTopics", Versions{2, 7}, Versions{2, 7}, ByControlPlane, 5, ""},
	{20, "DeleteTopics", Versions{1, 6}, Versions{1, 6}, ByControlPlane, 4, ""},
	{21, "DeleteRecords", Versions{0, 2}, Versions{0, 2}, ByControlPlane, 2, ""},
	{22, "InitProducerId", Versions{0, 5}, Versions{0, 5}, ByControlPlane, 2, "version 6 is unstable in Kafka 4.4"},
	{23, "OffsetForLeaderEpoch", Versions{2, 4}, Versions{2, 4}, ByAgent, 4, ""},
	{24, "AddPartitionsToTxn", Versions{0, 5}, Versions{0, 5}, ByControlPlane, 3, ""},
	{25, "AddOffsetsToTxn", Versions{0, 4}, Versions{0, 4}, ByControlPlane, 3, ""},
	{26, "EndTxn", Versions{0, 5}, Versions{0, 5}, ByControlPlane, 3, ""},
	{27, "WriteTxnMarkers", Versions{1, 2}, Versions{1, 2}, ByControlPlane, 1, "for operators (KIP-664): a transaction ends in one command here"},
	{28, "TxnOffsetCommit", Versions{0, 6}, Versions{0, 5}, ByControlPlane, 3, "6 has topic ids, which owners of the release before cannot read: agents offer it from the next release on, so a rolling upgrade breaks no transaction"},
	{29, "DescribeAcls", Versions{1, 3}, Versions{1, 3}, ByAgent, 2, "no authorizer: SECURITY_DISABLED, as Kafka without one"},
	{30, "CreateAcls", Versions{1, 3}, Versions{1, 3}, ByAgent, 2, "no authorizer: SECURITY_DISABLED, as Kafka without one"},
	{31, "DeleteAcls", Versions{1, 3}, Versions{1, 3}, ByAgent, 2, "no authorizer: SECURITY_DISABLED, as Kafka without one"},
	{32, "DescribeConfigs", Versions{1, 4}, Versions{1, 4}, ByControlPlane, 4, ""},
	{33, "AlterConfigs", Versions{0, 2}, Versions{0, 2}, ByControlPlane, 2, ""},
	{34, "AlterReplicaLogDirs", Versions{1, 2}, Versions{1, 2}, ByControlPlane, 2, "every node has one directory, which every partition is in"},
	{35, "DescribeLogDirs", Versions{1, 5}, Versions{1, 5}, ByControlPlane, 2, ""},
	{36, "SaslAuthenticate", Versions{0, 2}, Versions{0, 2}, ByAgent, 2, "no SASL listener: ILLEGAL_SASL_STATE, as Kafka without SASL"},
	{37, "CreatePartitions", Versions{0, 3}, Versions{0, 3}, ByControlPlane, 2, ""},
	{38, "CreateDelegationToken", Versions{1, 3}, Versions{1, 3}, ByAgent, 2, "refused as Kafka without tokens does"},
	{39, "RenewDelegationToken", Versions{1, 2}, Versions{1, 2}, ByAgent, 2, "refused as Kafka without tokens does"},
	{40, "ExpireDelegationToken", Versions{1, 2}, Versions{1, 2}, ByAgent, 2, "refused as Kafka without tokens does"},
	{41, "DescribeDelegationToken", Versions{1, 3}, Versions{1, 3}, ByAgent, 2, "refused as Kafka without tokens does"},
	{42, "DeleteGroups", Versions{0, 3}, Versions{0, 3}, ByControlPlane, 2, ""},
	{43, "ElectLeaders", Versions{0, 2}, Versions{0, 2}, ByControlPlane, 2, "there are no elections: none is ever needed"},
	{44, "IncrementalAlterConfigs", Versions{0, 1}, Versions{0, 1}, ByControlPlane, 1, ""},
	{45, "AlterPartitionReassignments", Versions{0, 1}, Versions{0, 1}, ByControlPlane, 0, "checked and done at once: any agent serves any partition"},
	{46, "ListPartitionReassignments", Versions{0, 0}, Versions{0, 0}, ByControlPlane, 0, "none is ever under way"},
	{47, "OffsetDelete", Versions{0, 0}, Versions{0, 0}, ByControlPlane, never, ""},
	{48, "DescribeClientQuotas", Versions{0, 1}, Versions{0, 1}, ByAgent, 1, "there are none"},
	{49, "AlterClientQuotas", Versions{0, 1}, Versions{0, 1}, ByAgent, 1, "checked; setting one is refused until quotas come"},
	{50, "DescribeUserScramCredentials", Versions{0, 0}, Versions{0, 0}, ByAgent, 0, "there are none"},
	{51, "AlterUserScramCredentials", Versions{0, 0}, Versions{0, 0}, ByAgent, 0, "checked; adding one is refused until SASL comes"},
	{52, "Vote", None, None, ByNobody, 0, "between Kafka's brokers and controllers"},
	{53, "BeginQuorumEpoch", None, None, ByNobody, 1, "between Kafka's brokers and controllers"},
	{54, "EndQuorumEpoch", None, None, ByNobody, 1, "between Kafka's brokers and controllers"},
	{55, "DescribeQuorum", Versions{0, 2}, Versions{0, 2}, ByControlPlane, 0, "a quorum of one: the metadata log is in etcd"},
	{56, "AlterPartition", None, None, ByNobody, 0, "between Kafka's brokers and controllers"},
	{57, "UpdateFeatures", Versions{0, 2}, Versions{0, 2}, ByControlPlane, 0, "levels are those spoken and change with the release"},
	{58, "Envelope", None, None, ByNobody, 0, "between Kafka's brokers and controllers"},
	{59, "FetchSnapshot", None, None, ByNobody, 0, "between Kafka's brokers and controllers"},
	{60, "DescribeCluster", Versions{0, 2}, Versions{0, 2}, ByControlPlane, 0, ""},
	{61, "DescribeProducers", Versions{0, 0}, Versions{0, 0}, ByControlPlane, 0, ""},
	{62, "BrokerRegistration", None, None, ByNobody, 0, "between Kafka's brokers and controllers"},
	{63, "BrokerHeartbeat", None, None, ByNobody, 0, "between Kafka's brokers and controllers"},
	{64, "UnregisterBroker", Versions{0, 0}, Versions{0, 0}, ByControlPlane, 0, "agents that are gone leave by themselves; one that runs is refused"},
	{65, "DescribeTransactions", Versions{0, 0}, Versions{0, 0}, ByControlPlane, 0, ""},
	{66, "ListTransactions", Versions{0, 2}, Versions{0, 2}, ByControlPlane, 0, "a node lists the transactions that FindCoordinator names it for; patterns are RE2"},
	{67, "AllocateProducerIds", None, None, ByNobody, 0, "between Kafka's brokers and controllers"},
	{68, "ConsumerGroupHeartbeat", Versions{0, 1}, Versions{0, 1}, ByControlPlane, 0, "patterns are Go's dialect of RE2"},
	{69, "ConsumerGroupDescribe", Versions{0, 1}, Versions{0, 1}, ByControlPlane, 0, ""},
	{70, "ControllerRegistration", None, None, ByNobody, 0, "between Kafka's brokers and controllers"},
	{71, "GetTelemetrySubscriptions", Versions{0, 0}, Versions{0, 0}, ByAgent, 0, "subscriptions are client-metrics configs"},
	{72, "PushTelemetry", Versions{0, 0}, Versions{0, 0}, ByAgent, 0, "shown as metrics of the agent"},
	{73, "AssignReplicasToDirs", None, None, ByNobody, 0, "between Kafka's brokers and controllers"},
	{74, "ListConfigResources", Versions{0, 1}, Versions{0, 1}, ByControlPlane, 0, ""},
	{75, "DescribeTopicPartitions", Versions{0, 0}, Versions{0, 0}, ByControlPlane, 0, ""},
	{76, "ShareGroupHeartbeat", Versions{1, 1}, None, ByNobody, 0, "share groups (KIP-932) come in a later release; share.version is 0"},
	{77, "ShareGroupDescribe", Versions{1, 1}, None, ByNobody, 0, "share groups (KIP-932) come in a later release; share.version is 0"},
	{78, "ShareFetch", Versions{1, 2}, None, ByNobody, 0, "share groups (KIP-932) come in a later release; share.version is 0"},
	{79, "ShareAcknowledge", Versions{1, 2}, None, ByNobody, 0, "share groups (KIP-932) come in a later release; share.version is 0"},
	{80, "AddRaftVoter", Versions{0, 1}, None, ByNobody, 0, "there is no KRaft quorum: the control plane's log is in etcd"},
	{81, "RemoveRaftVoter", Versions{0, 0}, None, ByNobody, 0, "there is no KRaft quorum: the control plane's log is in etcd"},
	{82, "UpdateRaftVoter", None, None, ByNobody, 0, "between Kafka's brokers and controllers"},
	{83, "InitializeShareGroupState", Versions{0, 0}, None, ByNobody, 0, "between Kafka's brokers: share group state is kept elsewhere here"},
	{84, "ReadShareGroupState", Versions{0, 0}, None, ByNobody, 0, "between Kafka's brokers: share group state is kept elsewhere here"},
	{85, "WriteShareGroupState", Versions{0, 1}, None, ByNobody, 0, "between Kafka's brokers: share group state is kept elsewhere here"},
	{86, "DeleteShareGroupState", Versions{0, 0}, None, ByNobody, 0, "between Kafka's brokers: share group state is kept elsewhere here"},
	{87, "ReadShareGroupStateSummary", Versions{0, 1}, None, ByNobody, 0, "between Kafka's brokers: share group state is kept elsewhere here"},
	{88, "StreamsGroupHeartbeat", Versions{0, 1}, None, ByNobody, 0, "streams groups (KIP-1071) come in a later release; streams.version is 0"},
	{89, "StreamsGroupDescribe", Versions{0, 1}, None, ByNobody, 0, "streams groups (KIP-1071) come in a later release; streams.version is 0"},
	{90, "DescribeShareGroupOffsets", Versions{0, 1}, None, ByNobody, 0, "share groups (KIP-932) come in a later release; share.version is 0"},
	{91, "AlterShareGroupOffsets", Versions{0, 0}, None, ByNobody, 0, "share groups (KIP-932) come in a later release; share.version is 0"},
	{92, "DeleteShareGroupOffsets", Versions{0, 0}, None, ByNobody, 0, "share groups (KIP-932) come in a later release; share.version is 0"},
	{93, "StreamsGroupTopologyDescriptionUpdate", Versions{0, 0}, None, ByNobody, 0, "streams groups (KIP-1071) come in a later release; streams.version is 0"},
	{94, "UnregisterController", Versions{0, 0}, None, ByNobody, 0, "there is no KRaft quorum: the control plane's log is in etcd"},
}
