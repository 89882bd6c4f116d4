// Package sim runs a whole cluster in one process (control-plane replicas over the metadata log in memory, agents over
// one faulty bucket) with real Kafka clients over loopback, breaks it in chosen or seeded ways, and checks with the
// ledger that no acknowledged record was lost, doubled, moved or reordered, and that all agents read the same.
//
//	Kafka clients --tcp--> agents --links, with faults--> control-plane replicas --faults--> memlog
//	                          \--faults--> audited bucket in memory
//
// Each row of the failure table that can be shown without killing processes is a test of its own; TestSeed mixes them.
// `make sim SEED=… DURATION=…` runs that one longer or again.
package sim
