// Package ecosystem runs what people build on Apache Kafka against Freshet, from the official jars: Kafka Streams with
// exactly-once counts, Kafka Connect, MirrorMaker 2, the command-line tools for groups and transactions, and groups of
// several client libraries whose members must not notice that an agent or the owner was killed.
//
// Every test can run against Apache Kafka itself, which tells whether it asks for what Kafka does:
//
//	go test ./test/ecosystem -args -against kafka
package ecosystem
