// Package requests counts what a load asks of the object store, and what that is a second: PUTs, GETs, parts and the
// requests around them, hedges too. It runs on a driven clock, in two halves that share no request:
//
//	live  agents of three zones take batches in, and groups in each zone read everything as soon as it is committed
//	jobs  the same agents take the same batches in, and compact them as the planner says, until each byte was
//	      rewritten once by each level; beside it retention and snapshots
//
// What is real is what decides on requests: writer, PUT budget, hedging, cache, agents asking each other, owner, state
// machine, planner, runner, merge and its uploads, lifecycle. What is not: batches are one header and zeros, and the store
// keeps only what is not zero, at the latencies of package latency; there are no Kafka connections, and consumers read each
// extent when its commit was announced.
//
// `make bench-requests` runs loads for long and prints the tables; `make test` runs short ones with the same bounds.
package requests
