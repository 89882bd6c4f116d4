package cli

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupOptions make the consumer a member of its group. It offers what members of other clients have by default: range and
// cooperative-sticky (Java's partition.assignment.strategy), range and roundrobin (librdkafka's), so that it can join them.
func (k *consumer) groupOptions(from position) []kgo.Opt {
	return []kgo.Opt{
		kgo.ConsumerGroup(k.config.Group),
		kgo.Balancers(kgo.RangeBalancer(), kgo.RoundRobinBalancer(), kgo.CooperativeStickyBalancer()),
		kgo.ConsumeStartOffset(from.offset()),
		kgo.AutoCommitMarks(),      // what was written, and nothing else
		kgo.BlockRebalanceOnPoll(), // so that the three below do not run beside what k does with records
		kgo.OnPartitionsAssigned(k.given),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
			if err := client.CommitMarkedOffsets(ctx); err != nil {
				fmt.Fprintf(k.errs, "freshet: commit before partitions go to another member: %v\n", err)
			}
			k.lost(ctx, client, partitions)
		}),
		kgo.OnPartitionsLost(k.lost),
	}
}

// given takes the partitions that the group gives.
func (k *consumer) given(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
	k.assigned = true
	if k.config.ExitAtEnd {
		k.failed = k.findEnds(ctx, kadm.NewClient(client), partitions[k.config.Topic], k.from)
	}
}

// lost takes those that it gives to others, or gives back in a moment: kgo calls given once the rebalance is over, even if it
// brought nothing (assignRevokeSession.assign), and only then does the member know that nothing is left to it.
func (k *consumer) lost(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	k.assigned = false
	for _, p := range partitions[k.config.Topic] {
		delete(k.ends.open, p)
	}
}

// committed puts the group's offsets in the place of where partitions would begin without them.
func (k *consumer) committed(ctx context.Context, admin *kadm.Client, starts kadm.ListedOffsets) error {
	topic := k.config.Topic
	offsets, err := admin.FetchOffsetsForTopics(ctx, k.config.Group, topic)
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return fmt.Errorf("read the group's offsets: %w", err)
	}
	for p, o := range starts[topic] {
		if at, ok := offsets.Lookup(topic, p); ok && at.At >= 0 {
			o.Offset = at.At
			starts[topic][p] = o
		}
	}
	return nil
}

// commit commits what was written, though ctx may have ended.
func (k *consumer) commit(ctx context.Context) error {
	if k.config.Group == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.config.Timeout)
	defer cancel()
	if err := k.client.CommitMarkedOffsets(ctx); err != nil {
		return fmt.Errorf("commit offsets of group %s: %w", k.config.Group, err)
	}
	return nil
}
