// Package zonewriter lets one agent of a zone write what the clients of several send, so that the number of PUTs follows
// the zone's bytes and not its agents (design.md 4.4, I7).
//
// Each agent has a Route: it hands the batches of its clients to the writer that the control plane named, which is its
// own (package writer) or, by a stream over the peer port, another agent's; there a Taker adds them to that agent's own.
// Outcomes come back batch by batch, and the agent that took the request answers it.
//
// # Order
//
// An agent hands all it takes to one writer at a time. Before it turns to another it has what it handed over sealed and
// waits until that is settled, so that what follows cannot overtake it (I2). Batches with producer ids are waited for
// only a while: their sequence numbers keep their order, whatever way they take. Others are waited for until their
// clients have been answered that the outcome is unknown, which is 60 s; or for 3 s if the writer is no agent of the zone
// any more, since what a closed session has not committed it never will. The stream is then given up as if it were lost:
// a writer that is cut off from the control plane, and cannot tell what became of its commits, holds nobody up for longer.
//
// # Loss
//
// Whoever loses a stream knows nothing of what was on its way: its clients get a retriable error and try again, and
// sequence numbers tell what had been committed (I3). The agent then writes itself, until the stream stands again or it
// is told of another writer. Nothing rests on who writes: when agents hear of a change at different times, there are a
// few more PUTs for a moment.
//
// # Stream
//
// A connection to the peer port that was upgraded to the protocol freshet-batches/1. Integers are big endian. Frames of
// the agent that hands over:
//
//	offset  size  field
//	0          1  kind: 1 batches, 2 flush: seal what is gathered, 3 alive
//	1          1  reserved, 0
//	2          2  number of batches
//	4          8  number of the frame of batches, rising by 1 from 1
//
// and for each batch
//
//	0         16  topic id
//	16         4  partition
//	20         4  size of the batch
//	24         1  latency: 0 standard, 1 fast, 2 economy
//	25         1  version of the transaction protocol, 0 if not transactional
//	26         2  reserved, 0
//	28         8  log index of the request's stamp, 0 if there is none
//	36         n  the batch, format 2
//
// Frames of the writer:
//
//	0          1  kind: 1 results, 3 alive
//	1          1  reserved, 0
//	2          2  number of results
//	4          8  results: number of the frame that they are of; alive: number of the last frame that was taken in
//
// and for each result
//
//	0          1  outcome (package commit)
//	1          1  error, 0 if there is an outcome; see fault
//	2          6  reserved, 0
//	8          8  base offset
//	16         8  log start
//
// Results come in any order. An alive frame is sent whenever frames were taken in, and at least every half second by
// both sides: who hears nothing for three gives the stream up. The bytes of frames that were not taken in are bounded by
// a window, so that a writer without memory holds its senders up and never a socket.
package zonewriter
