// Package oracle knows what producers sent to a topic and what became of it, and finds what is wrong with what readers
// get. It speaks no Kafka: a History is told of sends, acknowledgements and transactions, a Reader of records and their
// offsets, in the order they were read; faults go to Findings.
//
// A record is named by its producer, its partition and a dense sequence number; its bytes follow from that, so they are
// not kept. In a partition, the records of one producer must stand in the order they were sent, once, at the offset they
// were acknowledged at, and later readings must find at every offset what the first one found.
//
// Memory, for hours: about 8 bytes for every 64 offsets and isolation level (what was read there, as a hash), 16 bytes
// for every transaction and partition it wrote to, about 100 bytes for every record acknowledged and not yet read by the
// first reader or the other way round, and 16 bytes for every hole that a lost answer left. A record that was sent,
// acknowledged and read leaves nothing else behind.
package oracle
