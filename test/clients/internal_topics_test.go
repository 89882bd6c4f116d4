package clients

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/test/harness"
)

// watchInternal joins a consumer group with a pattern that matches __consumer_offsets. The member is assigned all partitions, and commits and
// fetches an offset of one, on both sides.
func watchInternal(t *testing.T, sides []*side) {
	t.Helper()
	for _, s := range sides {
		beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		beat.Group, beat.MemberID, beat.RebalanceTimeoutMillis = "watchers", "w", 60_000
		beat.SubscribedTopicRegex, beat.Topics = kmsg.StringPtr("__consumer_off.*"), []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		var assigned []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic
		harness.Await(t, "the member has an assignment", func() bool {
			got := ask[*kmsg.ConsumerGroupHeartbeatResponse](t, s.conn, beat, 1)
			if got.ErrorCode != 0 {
				return false // COORDINATOR_NOT_AVAILABLE at first
			}
			if got.Assignment != nil && len(got.Assignment.Topics) > 0 {
				assigned = got.Assignment.Topics
			}
			beat = kmsg.NewPtrConsumerGroupHeartbeatRequest()
			beat.Group, beat.MemberID, beat.MemberEpoch, beat.RebalanceTimeoutMillis = "watchers", "w", got.MemberEpoch, -1
			return len(assigned) > 0
		})
		s.learn(t)
		require.Len(t, assigned, 1)
		require.Equal(t, s.ids[internaltopic.Offsets.Name], assigned[0].TopicID)
		require.Subset(t, assigned[0].Partitions, []int32{0, 1})

		commit := offsetCommit(s, "watchers", internaltopic.Offsets.Name, 1, func(r *kmsg.OffsetCommitRequest) {
			r.MemberID, r.Generation = "w", beat.MemberEpoch
		})
		committed := ask[*kmsg.OffsetCommitResponse](t, s.conn, commit.(*kmsg.OffsetCommitRequest), 9).Topics[0].Partitions[0]
		require.Zero(t, committed.ErrorCode)
		fetch := offsetFetch(s, 9, "watchers", internaltopic.Offsets.Name, 1)
		member := "w"
		fetch.Groups[0].MemberID, fetch.Groups[0].MemberEpoch = &member, beat.MemberEpoch
		fetched := ask[*kmsg.OffsetFetchResponse](t, s.conn, fetch, 9).Groups[0].Topics[0].Partitions[0]
		require.Zero(t, fetched.ErrorCode)
		require.GreaterOrEqual(t, fetched.Offset, int64(0))
	}
}
