// Package elastic grows and shrinks a cluster under stock clients. Idempotent producers of three families (Apache Kafka's
// Java client, librdkafka, franz-go), each in a zone of its own, write at a steady rate while agents go from one to six
// to three to one by SIGTERM, one dies by kill -9, a zone empties and refills, and all go and come back. Groups of every
// family and both protocols, with and without client.rack, and readers without a group follow.
//
// In the end every record must be there once, in order, at the offset that its producer was told; every reader must have
// read all of it in order without a reset; no group may have rebalanced but those that follow racks, when a zone had its
// first agent ever. Times are printed, not asserted: `make elastic
// DURATION=10m` runs the same longer and prints the figures beside the bounds.
//
// TestShared does the like with clients that reach agents by a shared listener alone, through one load balancer per zone.
//
// TestHome starts the first agents of a zone whose clients already run, and counts what these clients still ask of another zone.
package elastic
