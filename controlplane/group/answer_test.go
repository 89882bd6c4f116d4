package group_test

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/session"
)

// allocated returns the bytes that fn allocates.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// refuses sends a request whose answer would be too large. The answer must not be built before it is refused.
func refuses[Out kmsg.Response](w *world, in kmsg.Request, version int16) {
	w.t.Helper()
	bytes := allocated(func() {
		answer := send[Out](w, in, version)
		synctest.Wait()
		_, err := answer()
		require.ErrorIs(w.t, err, session.ErrBadRequest)
		require.ErrorContains(w.t, err, "the answer is too large")
	})
	w.t.Logf("%T: allocated %d MiB", in, bytes>>20)
	require.Less(w.t, bytes, uint64(100<<20))
}

func TestOffsetFetch_NamesAGroupOftenInOneRequest(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		const partitions = 1000
		w.create("many", partitions)
		for from := range int32(10) {
			in := commitRequest("g", "many", 0, 0)
			in.Topics[0].Partitions = nil
			for p := range int32(partitions / 10) {
				rp := kmsg.NewOffsetCommitRequestTopicPartition()
				rp.Partition, rp.Offset, rp.Metadata = from*partitions/10+p, 7, kmsg.StringPtr(strings.Repeat("m", 4000))
				in.Topics[0].Partitions = append(in.Topics[0].Partitions, rp)
			}
			require.Zero(t, commitCode(w, in, 9))
		}
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = "g"
		all := kmsg.NewPtrOffsetFetchRequest()
		all.Groups = slices.Repeat([]kmsg.OffsetFetchRequestGroup{g}, 5)
		out := ask[*kmsg.OffsetFetchResponse](w, all, 9)
		require.Len(t, out.Groups, 5)
		require.Len(t, out.Groups[0].Topics[0].Partitions, partitions)
		require.Equal(t, out.Groups[0], out.Groups[4])

		all.Groups = slices.Repeat([]kmsg.OffsetFetchRequestGroup{g}, 400)
		refuses[*kmsg.OffsetFetchResponse](w, all, 9)
		topic := kmsg.NewOffsetFetchRequestGroupTopic()
		topic.Topic, topic.Partitions = "many", make([]int32, 100_000)
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{topic}
		all.Groups = []kmsg.OffsetFetchRequestGroup{g}
		refuses[*kmsg.OffsetFetchResponse](w, all, 9)
	})
}

func TestDescribeGroups_NamesAGroupOftenInOneRequest(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		m := &member{group: "g"}
		join := m.joinRequest()
		join.Protocols[0].Metadata = bytes.Repeat([]byte("m"), 1<<20-100)
		joined := ask[*kmsg.JoinGroupResponse](w, join, 3)
		require.Zero(t, joined.ErrorCode)
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Group, sync.MemberID, sync.Generation = "g", joined.MemberID, joined.Generation
		require.Zero(t, ask[*kmsg.SyncGroupResponse](w, sync, 3).ErrorCode) // metadata of members is shown then
		in := kmsg.NewPtrDescribeGroupsRequest()
		in.Groups = slices.Repeat([]string{"g"}, 5)
		out := ask[*kmsg.DescribeGroupsResponse](w, in, 6)
		require.Len(t, out.Groups, 5)
		require.Len(t, out.Groups[4].Members, 1)
		require.Equal(t, out.Groups[0], out.Groups[4])
		in.Groups = slices.Repeat([]string{"g"}, 1000)
		refuses[*kmsg.DescribeGroupsResponse](w, in, 6)
		in.Groups = slices.Repeat([]string{"g", "absent"}, 15)
		require.Len(t, ask[*kmsg.DescribeGroupsResponse](w, in, 6).Groups, 30)
	})
}

func TestConsumerGroupDescribe_NamesAGroupOftenInOneRequest(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		in := joining("g", "m")
		for i := range 1000 {
			in.SubscribedTopicNames = append(in.SubscribedTopicNames, strings.Repeat("t", 200+i%40)+string(rune('a'+i/40)))
		}
		require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, in, 1).ErrorCode)
		describe := kmsg.NewPtrConsumerGroupDescribeRequest()
		describe.Groups = slices.Repeat([]string{"g"}, 5)
		out := ask[*kmsg.ConsumerGroupDescribeResponse](w, describe, 1)
		require.Len(t, out.Groups, 5)
		require.Equal(t, out.Groups[0], out.Groups[4])
		describe.Groups = slices.Repeat([]string{"g"}, 1000)
		refuses[*kmsg.ConsumerGroupDescribeResponse](w, describe, 1)
	})
}
