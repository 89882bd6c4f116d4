package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
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
	k.reading += len(partitions[k.config.Topic])
	admin := kadm.NewClient(client)
	if k.failed == nil && len(partitions) > 0 {
		k.failed = k.begin(ctx, admin, partitions[k.config.Topic])
	}
	if k.failed == nil && k.config.ExitAtEnd {
		k.failed = k.findEnds(ctx, admin, partitions[k.config.Topic], k.from)
	}
	if len(k.ends.open) > 0 {
		k.ended = time.Time{}
	}
}

// begin commits where reading begins in partitions of which the group has committed nothing, before kgo asks for that. One that
// has no record until this member ends would else begin at --from again, beyond what came meanwhile if that is the end. Java's
// consumers commit the positions of all that they are given too (SubscriptionState.allConsumed).
func (k *consumer) begin(ctx context.Context, admin *kadm.Client, partitions []int32) error {
	topic := k.config.Topic
	offsets, err := admin.FetchOffsetsForTopics(ctx, k.config.Group, topic)
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return fmt.Errorf("read the group's offsets: %w", err)
	}
	starts, err := k.startOffsets(ctx, admin, k.from)
	if err != nil {
		return err
	}
	fresh := make(map[int32]kgo.EpochOffset)
	for _, p := range partitions {
		start, _ := starts.Lookup(topic, p)
		if at, ok := offsets.Lookup(topic, p); (!ok || at.At < 0) && start.Offset >= 0 {
			fresh[p] = kgo.EpochOffset{Epoch: -1, Offset: start.Offset}
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	k.client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: fresh},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, failed error) {
			err = committed(resp, failed)
		})
	return err
}

// committed gives the first error of a commit.
func committed(resp *kmsg.OffsetCommitResponse, err error) error {
	if err != nil {
		return fmt.Errorf("commit where to begin: %w", err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("commit where to begin in partition %d: %w", p.Partition, err)
			}
		}
	}
	return nil
}

// lost takes those that it gives to others, or gives back in a moment: kgo calls given once the rebalance is over, even if it
// brought nothing (assignRevokeSession.assign), and only then does the member know that nothing is left to it.
func (k *consumer) lost(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	k.assigned = false
	k.reading -= len(partitions[k.config.Topic])
	for _, p := range partitions[k.config.Topic] {
		delete(k.ends.open, p)
	}
}

// over tells, of a member that is done, whether its group gives it no more. In a cooperative group a member is first given what
// nobody has, perhaps nothing, and the rest when the others have given that up (KIP-429). It waits for that as long as for a request.
func (k *consumer) over(ctx context.Context) (bool, error) {
	if k.config.Group == "" || k.full() {
		return true, nil
	}
	rest, err := k.settled(ctx)
	if err != nil {
		return false, fmt.Errorf("ask what group %s gave: %w", k.config.Group, err)
	}
	if k.ended.IsZero() {
		k.ended = time.Now()
	}
	if rest || time.Since(k.ended) < k.config.Timeout {
		return rest, nil
	}
	fmt.Fprintf(k.errs, "freshet: group %s has not come to rest for %s, perhaps not all was read\n", k.config.Group, durationText(k.config.Timeout))
	return true, nil
}

// settled tells whether each of the topic's partitions is a member's, and no rebalance is under way.
func (k *consumer) settled(ctx context.Context) (bool, error) {
	admin := kadm.NewClient(k.client)
	listed, err := k.config.listGroups(ctx, admin, stableGroup)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(listed, func(g listedGroup) bool { return g.Group == k.config.Group })
	if i < 0 {
		return false, nil
	}
	g := describedGroup{listedGroup: listed[i]}
	if err := g.fillMembers(ctx, admin); err != nil {
		return false, err
	}
	meta, err := admin.Metadata(ctx, k.config.Topic)
	if err != nil {
		return false, fmt.Errorf("read metadata: %w", err)
	}
	for _, p := range meta.Topics[k.config.Topic].Partitions.Numbers() {
		has := func(m groupMember) bool { return m.assigned.Lookup(k.config.Topic, p) }
		if !slices.ContainsFunc(g.Members, has) {
			return false, nil
		}
	}
	return true, nil
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
