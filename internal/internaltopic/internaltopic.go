// Package internaltopic names the topics that Kafka calls internal and that every cluster shows. Neither has records in
// the object store: __consumer_offsets is a view of the committed offsets in the state, __transaction_state is empty.
package internaltopic

import (
	"math"
	"unicode/utf16"

	"github.com/freshet-io/freshet/metadata/id"
)

// Topic is an internal topic.
type Topic struct {
	Name    string
	ID      id.Topic
	Configs map[string]string // as Kafka creates the topic; not to be changed
}

// Partitions is the number of partitions of each (offsets.topic.num.partitions, transaction.state.log.num.partitions).
const Partitions = 50

// ReplicationFactor is the replication factor of each (offsets.topic.replication.factor, transaction.state.log.replication.factor).
const ReplicationFactor = 3

// Offsets holds the committed offsets of groups. Its configs are those of GroupCoordinatorService.groupMetadataTopicConfigs.
var Offsets = Topic{
	Name: "__consumer_offsets",
	ID:   id.Topic{'f', 'r', 'e', 's', 'h', 'e', 't', 0, 0x80, 'o', 'f', 'f', 's', 'e', 't', 's'},
	Configs: map[string]string{
		"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600",
	},
}

// Transactions would hold the state of transactions. Its configs are those of
// TransactionCoordinator.transactionStateTopicConfigs.
var Transactions = Topic{
	Name: "__transaction_state",
	ID:   id.Topic{'f', 'r', 'e', 's', 'h', 'e', 't', 0, 0x80, 't', 'x', 'n', 's', 't', 'a', 't'},
	Configs: map[string]string{
		"unclean.leader.election.enable": "false", "compression.type": "uncompressed", "cleanup.policy": "compact",
		"min.insync.replicas": "2", "segment.bytes": "104857600",
	},
}

// All are the topics in the order of their names.
func All() []*Topic { return []*Topic{&Offsets, &Transactions} }

// ByName returns a topic, or nil.
func ByName(name string) *Topic {
	for _, t := range All() {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// ByID returns a topic, or nil.
func ByID(topic id.Topic) *Topic {
	for _, t := range All() {
		if t.ID == topic {
			return t
		}
	}
	return nil
}

// Has reports whether a topic id is that of an internal topic.
func Has(topic id.Topic) bool { return ByID(topic) != nil }

// PartitionOf returns the partition of __consumer_offsets that Kafka keeps a group in, by its Java hash code
// (GroupCoordinatorService.partitionFor).
func PartitionOf(group string) int32 {
	var hash int32
	for _, unit := range utf16.Encode([]rune(group)) {
		hash = 31*hash + int32(unit)
	}
	if hash == math.MinInt32 {
		return 0
	}
	return max(hash, -hash) % Partitions
}
