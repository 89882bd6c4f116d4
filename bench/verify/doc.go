// Package verify checks a Kafka endpoint from outside: it produces for as long as one likes, reads everything back in
// every way there is, and compares. Brokers may be killed meanwhile; what a client may not know after a lost answer is
// taken as unknown, never as a fault.
//
// For each topic of a run there are
//
//   - producers, idempotent, plain or transactional, whose records are numbered for each producer and partition without
//     holes and carry bytes that follow from their number;
//   - a first reader at the end of every partition, of all records and markers, which settles each acknowledgement;
//   - passes: readers that begin at the start again and again, of all records and of committed ones in turn, and must
//     find what was found before;
//   - groups whose members come and go, commit what they read, and must be given every record at least once;
//   - a prober that asks every broker for ends, for the last acknowledged record, for committed offsets and for the
//     groups' assignments: no answer may ignore what was acknowledged or told before it was asked for.
//
// What is a fault is decided in package oracle. The kinds of faults are those of Jepsen's Kafka workload
// (jepsen.tests.kafka: lost writes, duplicates, inconsistent offsets, aborted reads, polls that skip or go back) and
// those of answers about ends, commits and assignments.
//
// Not a fault, because Kafka does not promise it: a transaction whose markers become visible in one partition before
// another, as long as it is whole in the end; a record delivered to a group again.
package verify
