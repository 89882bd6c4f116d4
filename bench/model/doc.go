// Package model computes two bounds without running anything.
//
// The first is Little's law: a producer moves at most what it has in flight per answer it waits for,
//
//	bytes a second = connections x requests in flight x bytes of a request / latency
//
// where a request holds at most one batch of each partition of its connection. With small batches and many milliseconds
// to an answer that is far less than the network carries, and the same for every broker that is as slow to answer; the
// package tells which setting lifts it to a wanted rate, or whether more node ids per agent do.
//
// The second is what an agent carries on a machine: the least of what CPU (measured), network and memory allow.
package model
