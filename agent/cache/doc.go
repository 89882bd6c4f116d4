// Package cache holds bytes of bundles in memory: those that this agent wrote, handed over once they are committed,
// and those that it read from the object store or got from
// another agent of its zone.
//
// The unit of caching is the whole bundle, where an extent lies in the first 16 MiB of a bundle as producers' batches
// were written, so that one GET serves every reader of it (I7); and 4 MiB pieces otherwise (compacted outputs, giant
// batches). Concurrent readers share one GET.
//
// # The zone
//
// What is not in memory is asked of the zone's other agents first (Zone, which package peer implements): the bundle's
// writer, or the unit's owner, which makes one GET for all of the zone. A flight is either of that kind or direct, which
// is a GET; a unit that no agent gives goes on as a direct flight. Units that are lent to other agents are read by direct
// flights alone, so no agent waits for one that waits for it. What another agent sent is checked and patched like
// what was read, and where it lacks an extent (a writer keeps accepted batches only) or is damaged, the object is read.
//
// # Bytes become readable by extents
//
// Stored batches have the base offsets that producers sent. What they are is known per extent only: a batch that was
// answered as a duplicate in the middle of a bundle belongs to no extent. So the first reader of an extent in a unit
// checks the CRC-32C of the extent's batches and patches their base offsets and leader epochs (-1), under the unit's
// lock; the unit remembers that. A batch has one true offset, so whichever extents name it, it is written at most
// once, and only before any reader got it: bytes that a client's socket reads never change. Units lent to another agent
// may be patched meanwhile, and are copied out under the lock therefore; the writer's are not, since they are final.
//
// # Lifetime
//
// A unit is counted: one reference is the cache's, one each is of the Bytes that readers hold until their answer was
// written. Eviction drops the cache's reference only; memory goes back (to the chunk pool, or to the writer) with the
// last one.
//
// # Isolation
//
// Reads behind the live edge have a part of their own: memory, and GETs at once. They do not evict what live readers
// share, and cannot use up their requests.
package cache
