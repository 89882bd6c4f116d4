// Package session is the owner's side of the conversation with agents: it opens, resumes and closes agent sessions,
// brings commits into the log in their order, answers look-ups and probes, tells agents what changed, and hands
// forwarded Kafka requests to the admin APIs.
//
// A Server is the gRPC service of one replica. It has one Cluster per virtual cluster; a Cluster has a tenure while
// this replica is the owner, and refuses agents with NOT_OWNER otherwise.
//
// # Order
//
// What one agent is sent about state is in log order. Three things make it so:
//
//   - The full catalogue, in as many messages as it takes, goes first, and then every item through the agent's outbox, which
//     is sent in order. A place in it can be reserved before its content is known; nothing behind it is sent until it is
//     filled.
//   - A look-up takes its index, its subscriptions and its place in the outbox inside owner.Read, where the state does
//     not change. Effects of a later index therefore find the subscription and go behind the answer; effects of that
//     index or an earlier one, which the apply goroutine may still be about to announce, are skipped by index. So a
//     subscription has neither gap nor double. The place is filled only after the fence was checked (I9).
//   - A stamp of index i waits until the effects of i were announced, and the membership of i sent. In a burst of joins it is sent late (membership.go).
//
// # Answers to clients
//
// Answers bounds their memory in all. A handler whose answer can be larger than its request counts the answer while building it
// (AnswerOf). If the memory is taken, the handler ends with ErrAnswersFull before it has an effect, and the agent sends the request again.
// Unsent answers never cut a stream.
//
// # Room
//
// One key must not take the replica from other virtual clusters (I10). A virtual cluster has at most Limits.Sessions open sessions, and opens as many
// within a minute, since closed ones stay in the state. Calls, whether they have a session or not, are bounded in number and by rate (callers.go).
// So are connections (connections.go). An agent beyond a bound gets RESOURCE_EXHAUSTED, which it logs and retries.
//
// Messages bounds the memory of messages that arrive, with a share for each virtual cluster (receive.go). A waiting message stays at its agent by flow
// control, except for the first 64 KiB. The virtual cluster that used least memory lately is next (line.go). The session of the agent stays open
// meanwhile.
//
// # Time
//
// An agent may bound a commit's time by this owner's steady clock, which stamps tell it of (late.go). A commit that is late is
// refused before it is handed to the log, and only if no earlier attempt was: the agent may then leave batches out.
//
// # The order of commits
//
// What agents hand in for commit goes into the log in the order of n of each session: what comes early is held until what is
// missing comes, at most HoldTimeout. A new owner begins with what the state has.
//
// # Locks
//
// In this order: the owner's state lock, tenure.mu, outbox.mu. Nothing is called out while tenure.mu is held except
// outboxes, the table of loads, zone writers and errands, which call nothing back. Answers and the lines of Messages have locks of their own, behind all
// others.
package session
