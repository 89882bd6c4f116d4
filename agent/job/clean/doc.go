// Package clean runs Clean jobs: it rewrites partitions of compacted topics so that each key keeps its latest record,
// as Kafka's log cleaner does (4.4: Cleaner, CleanedTransactionMetadata, SkimpyOffsetMap, MemoryRecords.filterTo).
//
// A partition is read twice, from the store, batch by batch. The first pass goes over the dirty part alone, what was
// written since the last cleaning, and notes for each key the offset of its last record. The second goes over all of the
// partition and copies what stays:
//
//	what is read                         what becomes of it
//	batch of an aborted transaction      goes
//	record whose key has a later one     goes
//	record without key                   goes (topics that were not compacted before may have them)
//	record with a value                  stays
//	tombstone                            stays until the delete horizon of its batch is over, then goes
//	marker of a transaction with data    stays
//	marker of one without any data left  stays until the delete horizon of its batch is over, then goes, and with it
//	                                     the aborted transaction
//	batch without records                goes: the extent covers its offsets
//
// The delete horizon (KIP-534) is set, to now plus delete.retention.ms, when a batch with tombstones or with such a
// marker is first cleaned: a reader that began before has that long to reach the end. It stands in place of the batch's base
// timestamp.
//
// What stays keeps its offset, its place, its timestamp and its batch, thinned out and compressed by the same codec; a
// batch that loses nothing is copied as it is. Kafka also keeps empty batches with the last sequences of producers.
// Here those are in the metadata.
//
// Memory is bounded, whatever the input: the notes of the first pass (when they are full, it ends there, and the rest
// stays dirty until the next time), one batch as it came, one as it goes, one part of the object to be written. Records are
// decompressed as a stream; what takes much memory for that (agent/recode) is opened in turn with all others of the process,
// and given back with the batch.
//
// Nothing that happens to a run can harm: it writes objects under names of its own and says at the end what is in them.
package clean
