// Package perf is the performance test of AutoMQ's perf tool (automq-perf-test.sh), for any Kafka endpoint: the same
// options, defaults, order of phases, lines and JSON file.
//
// A test creates topics, consumers and producers, waits until a record went through every partition, and warms up while
// the rate rises to its target over the first half of that time. Then it either measures for the test duration, or, with
// a backlog duration, pauses consumers for that long, sets every group back to where the backlog began (each group a
// delay later than the one before), and measures until one of them received a record sent after the backlog ended.
//
// It differs where the tool's way belongs to the Java client. Consumers that pause stay members of their groups and are
// set back by a seek of every partition to its own offset; the tool lets its groups run empty, which is why it wants 300
// seconds of backlog, and commits the first partition's offset for all. End-to-end latency is that of every record, not
// that of the first one of every poll. Lines are those of the tool's tutorial; newer versions of the tool also print the
// CPU and Java memory of the client.
package perf
