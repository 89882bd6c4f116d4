// Package consumer is one group of the consumer protocol (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe, as
// the group coordinator of Apache Kafka 4.4 serves them (ConsumerGroup, ConsumerGroupMember, CurrentAssignmentBuilder,
// TargetAssignmentBuilder and the consumerGroup methods of GroupMetadataManager), with static members, regular
// expressions, epochs per partition (KIP-1251), assignments held apart (KIP-1263), and members of the classic protocol
// inside the group while an application moves from one protocol to the other.
//
// A [Group] is a machine without clock, goroutine or I/O. Every call takes the time and what it sees of the topics,
// and gives a step.Step: what is to be logged and who is to be answered then. Nothing is ever parked. A heartbeat that
// finds nothing new logs nothing.
//
// # Three epochs
//
// The group epoch rises when a new target is wanted: a member came, left or subscribed otherwise, or a topic that the
// group subscribes to came, went or grew. The next heartbeat, of any member, makes the target assignment at that epoch
// (the assignment epoch). Each member then walks to its part of the target with its own heartbeats and takes over the
// epoch when it gave up what it had to (the member epoch). See reconcile for the states of a member.
//
//	Empty ──join──▶ Assigning ──heartbeat──▶ Reconciling ──all members at the target──▶ Stable
//	                    ▲                         │                                       │
//	                    └─────────────── the group epoch rises ───────────────────────────┘
//
// Invariant: no partition is owned by two members at once, neither here (owners) nor as the members see it: what one is
// told to use, no other was told to use without having reported, or been fenced, since.
//
// As in Kafka 4.4.0, a member that must revoke more partitions after the first ones stays at its epoch
// (CurrentAssignmentBuilder). A member of the group may send epoch 0 in any state.
//
// # What is durable
//
// The group as a whole (head) and each member (value), written where Kafka writes records; a change of one member writes
// its value and, if an epoch changed, the head. Regular expressions are resolved again by a new owner; the digest
// in the head tells whether that brought anything new. [Restore] gives every member a full new session time-out.
//
//	head     version 1 · group epoch · assignment epoch · assigned ms (zigzag) · digest (8 bytes)
//	value    version 1 · instance · rack · client id · client host · rebalance ms (zigzag)
//	         · count and names of topics · regex · assignor
//	         · 0, or 1 and session ms (zigzag) and count of protocols, each name and metadata, of a classic member
//	         · epoch (zigzag) · previous epoch (zigzag) · state (1 byte)
//	         · assigned · revoking: partitions with epochs
//	         · 1 if the target is what is assigned, else 0 and the partitions of the target
//	partitions  count of topics, each: id (16 bytes), count of partitions, each: distance from the one before + 1,
//	            and the epoch where there is one
//
// Numbers are varints unless said otherwise; strings have their length in front.
//
// # Migration
//
// [FromClassic] makes a consumer group of a classic one of consumers at the first heartbeat that joins it; its members
// stay, and are served by [Group.Join], [Group.Sync], [Group.ClassicHeartbeat] and [Group.ClassicLeave]. When the last
// member of the consumer protocol is gone the group becomes a classic one ([Group.Downgraded]).
//
// # Differences from Kafka
//
//   - A heartbeat with a new regular expression waits up to 1 s until the expression is resolved. Kafka answers first, so the member mostly has
//     its partitions one heartbeat earlier here. Later resolutions run in the background, as in Kafka. While a new owner has not resolved all
//     expressions of a group, assignments stay as they are. The least time between two, ten seconds, is
//     Kafka's. There is no resolution every ten minutes, which serves changed permissions.
//   - An expression has at most 1,024 bytes and 10,000 instructions (package pattern), else INVALID_REGULAR_EXPRESSION.
//   - Expressions are Go's dialect of RE2, Kafka's are RE2/J's.
//   - The target is made in the heartbeat that finds it due, as Kafka's without assignor offload.
//   - Members that time out together raise the group epoch once.
//   - Groups whose classic members were given a partition twice by their leader can be upgraded: one keeps it.
package consumer
