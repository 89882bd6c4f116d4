// Package cache holds bytes of bundles in memory: those that this agent wrote, handed over once they are committed,
// and those that it read from the object store.
//
// The unit of caching is the whole bundle, where an extent lies in the first 16 MiB of a bundle as producers' batches
// were written, so that one GET serves every reader of it (I7); and 4 MiB pieces otherwise (compacted outputs, giant
// batches). Concurrent readers share one GET.
//
// # Bytes become readable by extents, or by batches
//
// Stored batches of fresh bundles have the base offsets that producers sent. What they are is known per extent only: a
// batch that was answered as a duplicate in the middle of a bundle belongs to no extent. So the first reader of an extent
// in a unit checks the CRC-32C of the extent's batches and patches their base offsets and leader epochs (kafkaproto.LogEpoch), under the
// unit's lock; the unit remembers that. A batch has one true offset, so whichever extents name it, it is written at most
// once, and only before any reader got it: bytes that a socket reads never change.
//
// What jobs wrote (kind Absolute) has true offsets, in extents of 16 MiB and more. It is read by parts: from the batch
// that holds an offset, to what is wanted or the end of a unit. A unit remembers which of its batches were verified, and
// the offset of one in 64 KiB. Where an offset's batch is, is known from the reader, who went on from there; from units
// in memory; or from the bundle's seek table, which one GET brings.
//
// # GETs
//
// Units that adjoin are one GET (run.go), each readable as soon as its bytes are there. Of a GET that reads ahead, only
// the part is taken in that there is room for; then it stands still until the reader has used what came before, for five
// seconds at most, and gives its place up if others need it. So memory bounds how far a GET is ahead of its reader, not
// how long it is. A reader's next GET begins when it has used up its share of that room.
//
// # Lifetime
//
// A unit is counted: one reference is the cache's, one each is of the Bytes that readers hold until their answer was
// written. Eviction drops the cache's reference only; memory goes back (to the chunk pool, or to the writer) with the
// last one. What was used longest ago goes first, but what was read ahead stays until it is used, up to half of the
// class's memory and for 15 seconds.
//
// # Isolation and fairness
//
// Reads behind the live edge have a part of their own: memory, GETs at once and a second. They do not evict what live
// readers share, and cannot use up their requests. Within a class, readers (connections) take turns at places for GETs,
// none has more than half of them, and the room for reading ahead is shared evenly by those that read ahead.
package cache
