// Package matrix runs the client libraries that applications use, in the versions that applications have, against
// Freshet: their released packages, each in a program of its own in its own language. What each program does is the
// same: list everything, subscribe by pattern, produce with every codec, rebalance a group, administer, transact.
//
// The versions and what each library is expected to do are in table.go. docs/clients.md shows them, and a test compares
// the page and the pins of the package managers with that table. With FRESHET_MATRIX_KAFKA=1 every program runs against
// Apache Kafka too.
//
// TestDrain_OldClientsMove runs consumers of old libraries while an agent is replaced. The TestLostZone tests take the agents of a zone away.
package matrix
