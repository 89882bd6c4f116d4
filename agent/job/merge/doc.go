// Package merge runs Compact jobs: it copies what bundles hold of partitions into fewer bundles in which what belongs to
// a partition lies together. Records stay as they are.
//
// Sections of all bundles ascend by partition, so one pass over the plan reads each input once, from front to back: one
// GET for the stretch of the object that the plan needs, read as slowly as the merge goes, with a bounded buffer.
//
//	what is read           what becomes of it
//	batch of an extent     copied, its checksum compared, its base offset and leader epoch made true
//	batch of no extent     skipped: it was not accepted, or is no longer of any partition
//	marker extent          written as the control batch that it stands for
//	offsets without batch  covered by the extents around them; a run without any batch by an empty batch
//
// What happens, and what follows:
//
//	a connection breaks or stalls     made again from there
//	objects of inputs are missing     a MissingError, before anything is read. It names all of them
//	a batch is not what it should be  read again once; then a CorruptError, which names the bundle
//	either of the two, in a Cut plan  left out: the batch if the next one can be found, else the rest of the extent
//	the store refuses for long        an error
//	an error, or the context's end    the bundle being written is aborted; those complete are orphans, as after a crash
//
// Memory: the parts of the output that are under way and one being filled, a buffer per input (all of them together bounded), one batch.
package merge
