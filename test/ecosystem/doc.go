// Package ecosystem runs programs of the ecosystem of Apache Kafka against Freshet, from their published packages: Kafka
// Streams with exactly-once counts, Kafka Connect, MirrorMaker 2, Spring Kafka, Flink, Quix Streams, the command-line tools
// for groups and transactions, and groups of several client libraries whose members must not notice that an agent or the
// owner was killed.
//
// Every test can run against Apache Kafka itself, to show that the test asks for nothing else:
//
//	go test ./test/ecosystem -args -against kafka
package ecosystem
