// Package zonewriter lets one agent of a zone write what the clients of several send, so that the number of PUTs follows
// the zone's bytes and not its agents (I7).
//
// Each agent has a Route: it hands the batches of its clients to the writer that the control plane named, which is its
// own (package writer) or, by a stream over the peer port, another agent's; there a Taker adds them to that agent's own.
// Outcomes come back batch by batch, and the agent that took the request answers it.
//
// # Order
//
// An agent hands all it takes to one writer at a time. Before it turns to another it has what it handed over sealed and
// waits until that is settled, so that what follows cannot overtake it (I2). After a second (Patience) it asks for what is
// not settled back: the writer leaves it out of its commits (package writer), and says so. What is handed in for commit by
// then only the sequencer can tell of. Batches with producer ids are not waited for: their sequence numbers keep their
// order, whatever way they take. Others are waited for, until the writer's session is closed, since what a closed session
// has not committed it never will (I9); or for 5 s.
//
// A batch above the window (512 KiB) waits for room at the writer before the link sends it. It holds back only later batches of
// its partition. On each stream one such batch at a time asks for room. The produce requests of held batches wait too, so the
// memory for requests bounds the number of held batches. Sending a large batch takes at most 30 s, and all other batches wait.
//
// # Loss
//
// Whoever loses a stream knows nothing of what was on its way: its clients get a retriable error and try again, and
// sequence numbers tell what had been committed (I3). The agent then writes itself, until the stream stands again or it
// is told of another writer. Nothing rests on who writes: when agents hear of a change at different times, there are a
// few more PUTs for a moment.
//
// Clients without sequence numbers may send the next batch, or the same again, as soon as they have that error. So what
// was lost with the stream must not be committed later than that, whatever made it late: the other side has a lease, which
// ends before the stream is given up (lease.go), also if it was paused and wakes with everything in its memory. It hands in
// for commit nothing whose lease is over, and says with each commit until when the owner may take it. What
// remains is a commit that was in time, and takes long to come into the owner's log. As with Apache Kafka, such a batch had an error, and
// may be there all the same, and twice if its client tried again; acknowledged ones keep their order.
//
// # How long a zone stands still
//
// For clients of the agents that hand over, from the fault until their batches are acknowledged again; a batch under way
// at the fault is answered within the same time, as not taken or not known. Measured by test/sim (TestStall_ZoneWriter),
// and where the writer is killed or paused by test/faults; with and without sequence numbers it is about the same, but for a
// writer without the owner: it is left after 2.8 s, and who has no sequence numbers waits for what it had handed in.
//
//	the zone's writer                    measured  at most  because
//	is killed                            at once   3 s      the connection ends; silence, if the machine is gone
//	is paused                            3.1 s     3.5 s    silence on the stream
//	hears the other agents no more       3.1 s     3.5 s    it hears silence, and gives the streams up
//	is heard by them no more             3.1 s     3.5 s    they do
//	is cut off from the owner            5.3 s     6 s      it says so after 1.5 s; Patience; the end of its session
//	hears nothing of the owner           6.2 s     7 s      the same; leaveTimeout
//	does not reach the object store      4.4 s     5 s      it says so after 3 s; Patience
//
// # Stream
//
// A connection to the peer port that was upgraded to the protocol freshet-batches/4. Integers are big endian. Frames of
// the agent that hands over:
//
//	offset  size  field
//	0          1  kind: 1 batches; 2 flush: seal what is gathered; 3 alive; 4 withdraw: give back what is not handed in
//	              for commit; 5 ask for room for a batch above the window
//	1          1  reserved, 0
//	2          2  batches: how many; ask: its number, rising
//	4          8  number of the frame of batches, rising by 1 from 1; alive: number of the last beat heard; ask: size of
//	              the batch, 0 if it is not wanted any more
//
// and for each batch
//
//	0         16  topic id
//	16         4  partition
//	20         4  size of the batch
//	24         1  latency: 0 standard, 1 fast
//	25         1  version of the transaction protocol, 0 if not transactional
//	26         8  log index of the request's stamp, 0 if there is none
//	34         n  the batch, format 2
//
// A batch above 256 KiB comes in pieces of that size, each after 8 bytes with the number of the last beat heard, since no
// alive frame comes before its end. It may take 30 s.
//
// Frames of the writer:
//
//	0          1  kind: 1 results, 3 alive, 4 beat, 5 there is room
//	1          1  reserved, 0
//	2          2  results: how many; beat: 1 if this agent is cut off from the object store or the owner; room: number of
//	              the ask
//	4          8  results: number of the frame that they are of; alive: number of the last frame that was taken in;
//	              beat: its number, rising by 1 from 1
//
// and for each result
//
//	0          1  outcome (package commit)
//	1          1  error, 0 if there is an outcome; see fault
//	2          6  reserved, 0
//	8          8  base offset
//	16         8  log start
//
// Results come in any order. An alive frame is sent whenever frames were taken in, and beats and signs of life every half
// second: who hears nothing for three gives the stream up. Batches are handed over from the first beat on. The bytes of
// frames that were not taken in are bounded by a window, and a batch larger than that is sent when there is room for it, so
// that a writer without memory holds its senders up and never a socket. A sender that cannot use its room for 10 s gives that
// room back. The writer ends a stream that leaves its room unused for 30 s.
package zonewriter
