// Package group is the group coordinator of one virtual cluster, for one tenure of its owner: it answers the group and
// offset APIs, as GroupCoordinatorService of Apache Kafka 4.4 does, around the machines of packages classic and
// consumer. What is soft lives here and in the machines; what is durable is in the metadata state, brought there by
// commands. See DESIGN.md for who holds the truth, crash points and owner changes.
//
// A group's entry (group) has one mutex. A request takes it, calls the machine, and hands the machine's Step to the
// entry's pipeline, which logs the writes one after the other and lets each answer go when everything before it is
// applied. A heartbeat of a quiet group touches no goroutine, no other lock and not the log.
package group
