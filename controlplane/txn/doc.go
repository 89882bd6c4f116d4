// Package txn answers the transaction APIs under one owner of a virtual cluster: Kafka's TransactionCoordinator, and
// what KafkaApis decides before it. It is thin: a transaction is in the state machine (package metadata), and every
// request that changes one is a command that is checked where it is applied. So there is nothing here to be lost with
// the owner but what is left of a block of producer ids.
//
// There is one file per API, which opens with the versions answered and what changes between them. Kafka's states
// between a decision and its markers do not exist, because one command ends a transaction in all its partitions:
// CONCURRENT_TRANSACTIONS is never answered. TxnOffsetCommit is the group coordinator's, which knows the members.
package txn
