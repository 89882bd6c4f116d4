// Package consumer is one group of the consumer protocol (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe, as
// the group coordinator of Apache Kafka 4.4 serves them (ConsumerGroup, ConsumerGroupMember, CurrentAssignmentBuilder,
// TargetAssignmentBuilder and the consumerGroup methods of GroupMetadataManager). Groups have static members, regular
// expressions, epochs per partition (KIP-1251) and assignments held apart (KIP-1263). Members of the classic protocol
// stay in the group while an application migrates from one protocol to the other.
//
// A [Group] is a state machine without clock, goroutine or I/O. Every call takes the time and a [Catalogue] of topics. It
// returns a step.Step: the changes to log, and the requests to answer once the changes are applied. A Group parks no request. A
// heartbeat that changes nothing logs nothing.
//
// # Three epochs
//
// The group epoch rises when a member joins, leaves or changes its subscription. It also rises when a subscribed topic is
// created, deleted or grows. The next heartbeat of any member computes the target assignment at that epoch (the assignment
// epoch). Each member then moves towards its part of the target with its own heartbeats. Once it has revoked all
// partitions outside the target, it takes the assignment epoch as its member epoch. See reconcile for the states of a member.
//
//	Empty ──join──▶ Assigning ──heartbeat──▶ Reconciling ──all members at the target──▶ Stable
//	                    ▲                         │                                       │
//	                    └─────────────── the group epoch rises ───────────────────────────┘
//
// Invariant: no two members own a partition at once, neither in Group.owners nor in the members' own view. A partition is
// assigned to a member only after its earlier owner has reported its revocation or was fenced.
//
// As in Kafka 4.4.0, a member that must revoke further partitions after the first ones stays at its epoch
// (CurrentAssignmentBuilder). A member of the group may send epoch 0 in any state.
//
// # Durable state
//
// The group as a whole (head) and each member (value) are durable, written where Kafka writes records. A change of one
// member writes its value and, if an epoch changed, the head. A new owner resolves regular expressions again, and compares
// the topics with the digest in the head. [Restore] starts a full session time-out for every member.
//
//	head     version 1 · group epoch · assignment epoch · assigned ms (zigzag) · digest (8 bytes)
//	value    version 1 · instance · rack · client id · client host · rebalance ms (zigzag)
//	         · count and names of topics · regex · assignor
//	         · 0, or 1 and session ms (zigzag) and count of protocols, each name and metadata, of a classic member
//	         · epoch (zigzag) · previous epoch (zigzag) · state (1 byte)
//	         · assigned · revoking: partitions with epochs
//	         · 1 if the target equals assigned, else 0 and the partitions of the target
//	partitions  count of topics, each: id (16 bytes), count of partitions, each: distance from the previous partition + 1,
//	            and the epoch if the list has epochs
//
// Numbers are varints, except where a size is given. Strings have their length in front.
//
// # Migration
//
// The first heartbeat that joins a classic group of consumers converts it to a consumer group ([FromClassic]). The classic
// members stay, and [Group.Join], [Group.Sync], [Group.ClassicHeartbeat] and [Group.ClassicLeave] serve them. When the last
// member of the consumer protocol has left, the group becomes a classic one ([Group.Downgraded]).
//
// # Differences from Kafka
//
//   - A heartbeat with a new regular expression waits up to 1 s until the expression is resolved. Kafka answers first, so the member mostly has
//     its partitions one heartbeat earlier here. Later resolutions run in the background, as in Kafka. While a new owner has not resolved all
//     expressions of a group, assignments stay as they are. The minimum time between two resolutions is ten seconds, as in Kafka. Kafka also
//     resolves every ten minutes, for changed permissions. Freshet does not.
//   - An expression has at most 1,024 bytes and 10,000 instructions (package pattern), else INVALID_REGULAR_EXPRESSION.
//   - Expressions are Go's dialect of RE2, Kafka's are RE2/J's.
//   - A heartbeat that finds the target outdated computes it at once, as Kafka does without assignor offload.
//   - Members that time out together raise the group epoch once.
//   - A group whose leader assigned a partition to two classic members can be converted: one member keeps the partition.
package consumer
