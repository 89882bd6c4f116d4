// Package classic is one group of the classic rebalance protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, as the
// group coordinator of Apache Kafka 4.4 serves them (ClassicGroup, ClassicGroupMember and the classicGroup methods of
// GroupMetadataManager), with static membership (KIP-345), MEMBER_ID_REQUIRED (KIP-394), protocol type and name in the
// answers (KIP-559), reasons (KIP-800) and the assignment that a returning static leader skips (KIP-814). Cooperative
// rebalancing is the clients' affair; the coordinator knows nothing of it.
//
// A [Group] is a machine without clock, goroutine or I/O. Every call takes the time and gives a step.Step: what is to
// be logged and who is to be answered then. Requests that wait for others are kept inside until a later call lets them
// go; each is answered exactly once.
//
//	Empty ──join──▶ PreparingRebalance ──all joined, or time is up──▶ CompletingRebalance ──leader's sync──▶ Stable
//	  ▲                │        ▲                                         │                                   │
//	  └──nobody left───┘        └──────── member joins, leaves, fails ────┴───────────────────────────────────┘
//
// From every state Unload leads to Dead.
//
// # What is durable
//
// The group is logged where Kafka logs it: when the leader's assignment arrives, when the last member is gone, when
// a static member comes back under a new member id without a rebalance, and when a group comes to be. Joins and
// heartbeats are not. [Restore] makes a group of what was logged; its members have a full new session time-out.
//
// # Differences from Kafka
//
//   - A join or sync that a second one of the same member displaces, and the sync of a member that leaves, are answered
//     (REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID). Kafka drops their futures; here the connection would wait for ever.
//   - The record keeps all protocols of a member, Kafka's only the chosen one. So a follower that joins again after
//     an owner change is told its generation instead of causing a rebalance.
//   - A protocol that a member lists twice counts once.
//   - A static member that takes another's place owes the sync that the other owed. Kafka goes on waiting for the
//     old id, and rebalances when its time is up. What it subscribes to counts at once, not with the next generation.
//   - Of protocols with equal votes, the one that the longest member votes for is chosen, and the longest member follows
//     a leader that is gone. Kafka leaves both to the order of a hash map.
//   - While no member has rejoined, the next attempt to end the join phase is at least [MinRejoinWait] away.
//   - Members that were given an id and have not joined with it are bounded ([Config.MaxPending]); those beyond are
//     to come again (COORDINATOR_LOAD_IN_PROGRESS).
//
// # The record
//
//	version      1 byte   1
//	state ms     zigzag   when the group came into its state, ms since the epoch
//	generation   varint
//	type         string   protocol type, "" for none
//	protocol     string   chosen by the generation, "" for none
//	leader       string   member id, "" for none
//	members      varint   count, then per member, in the order of their joining:
//	  id         string
//	  static     1 byte   1: the instance id follows as a string
//	  client id  string
//	  host       string
//	  rebalance  varint   ms
//	  session    varint   ms
//	  protocols  varint   count, then name (string) and metadata (bytes) of each, in the member's order
//	  assignment bytes
//
// Strings and bytes have their length in front as a varint.
package classic
