// Package assignor divides the partitions of topics among the members of a consumer group, as the broker does for
// groups of the consumer protocol (KIP-848): uniform and range, with the rules of Apache Kafka 4.4's UniformAssignor and
// RangeAssignor, neither of which looks at racks.
//
// An assignment is a pure function of the group given: members in the order of their ids and topics in the order of
// theirs decide every tie, so that the same group always gets the same answer. Apache Kafka's ties follow the order of
// its hash maps; the guarantees are the same ones:
//
//	complete    every partition of a topic with a subscriber has exactly one owner, who subscribes to it
//	balance     uniform, equal subscriptions: sizes differ by one at most; unequal ones: nearly so
//	stickiness  uniform: a partition stays where it is unless balance or a subscription moves it
//	ranges      range: each topic is cut into consecutive runs, the first members get the longer ones
package assignor
