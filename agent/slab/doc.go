// Package slab lends the memory that record bytes live in between the socket and the object store: fixed slabs out of
// one bounded budget. What is accounted is the capacity held, never the bytes used, so that the bound is a bound on
// memory.
//
// A slab has one owner at a time. Pool.Get takes it out of the budget; Slab.Transfer moves it out of the budget
// while its owner goes on holding it (a committed bundle's memory becomes the read cache's, which accounts for it
// itself); Slab.Release gives the memory back for reuse.
package slab
