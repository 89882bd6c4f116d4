// Package differential sends random sequences of group and transaction requests to Freshet and to the Apache Kafka of
// kafkaproto.KafkaVersion, and compares every answer field by field.
//
// A sequence follows from its seed. Its clients draw requests, most of them the next one of a well-behaved client, the
// rest with a wrong member, epoch, generation, sequence or version. Each request is built once per server, from what
// that server answered before, so that ids which only one server knows stay its own. Both servers live through a whole
// run. Every sequence has fresh names.
//
// An answer differs from the other one after both are normalized: ids become words, times become "a time". Differences
// that are meant are in one table (listed). Any other one is played again under fresh names, reduced to the requests it
// needs, and fails the test with its seed, its requests and both answers.
package differential
