// Package writer takes validated record batches to the object store and to the sequencer (ARCHITECTURE.md, Write path, steps 3 to 10): it
// copies them into bounded memory, gathers those of all partitions into one bundle, seals and puts it within the PUT
// budget, commits it, and tells each batch's waiter what became of it. DESIGN.md tells the life of a batch, who owns
// which memory when, and what a crash at each point leaves behind.
package writer
