package group_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Group epochs by new topics are at least 10 s apart, as Kafka's (TopicRegexResolver, REGEX_BATCH_REFRESH_MIN_INTERVAL_MS).
func TestCoordinator_TopicsThatKeepComingBumpAnEpochEveryTenSeconds(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		out := ask[*kmsg.ConsumerGroupHeartbeatResponse](w, subscribing("g", "m", "u.*"), 1)
		first := out.MemberEpoch
		for i := range 60 {
			w.create(fmt.Sprint("u", i), 1)
			time.Sleep(time.Second) // sleeps: in the bubble
			out = beatConsumer(w, "g", "m", out.MemberEpoch)
			require.Zero(t, out.ErrorCode)
		}
		require.LessOrEqual(t, out.MemberEpoch-first, int32(8), "epochs in 60 s")
	})
}

func TestCoordinator_OffsetFetchTellsNoMemberFromAnEmptyMemberID(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("g", "m"), 1).ErrorCode)
		none := kmsg.NewOffsetFetchRequestGroup()
		none.Group, none.MemberEpoch = "g", -1
		empty := none
		empty.MemberID = kmsg.StringPtr("")
		in := kmsg.NewPtrOffsetFetchRequest()
		in.Groups = []kmsg.OffsetFetchRequestGroup{empty}
		require.Equal(t, kerr.UnknownMemberID.Code, ask[*kmsg.OffsetFetchResponse](w, in, 9).Groups[0].ErrorCode)
		in.Groups = []kmsg.OffsetFetchRequestGroup{empty, none}
		out := ask[*kmsg.OffsetFetchResponse](w, in, 9)
		require.Equal(t, []int16{kerr.UnknownMemberID.Code, 0}, []int16{out.Groups[0].ErrorCode, out.Groups[1].ErrorCode})
	})
}

// The names of topics count in the offsets of a whole group.
func TestCoordinator_OffsetFetchOfManyMemberIDsIsBounded(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		for i := range 200 {
			name := fmt.Sprintf("%03d%s", i, strings.Repeat("n", 240))
			w.create(name, 1)
			require.Zero(t, commitCode(w, commitRequest("g", name, 0, 7), 9))
		}
		in := kmsg.NewPtrOffsetFetchRequest()
		for i := range 8000 {
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group, g.MemberID, g.MemberEpoch = "g", kmsg.StringPtr(fmt.Sprint(i)), -1
			in.Groups = append(in.Groups, g)
		}
		refuses[*kmsg.OffsetFetchResponse](w, in, 9)
	})
}

// A member's expression counts in ConsumerGroupDescribe.
func TestCoordinator_ConsumerGroupDescribeCountsExpressions(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		in := subscribing("g", "m", strings.Repeat("x", 1024))
		in.InstanceID = kmsg.StringPtr(strings.Repeat("i", 249))
		require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, in, 1).ErrorCode)
		describe := kmsg.NewPtrConsumerGroupDescribeRequest()
		describe.Groups = slices.Repeat([]string{"g"}, 200_000)
		refuses[*kmsg.ConsumerGroupDescribeResponse](w, describe, 1)
	})
}

// A group's protocol and members' instance IDs count in DescribeGroups.
func TestCoordinator_DescribeGroupsCountsProtocols(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		m := &member{group: "g"}
		join := m.joinRequest()
		join.ProtocolType = strings.Repeat("p", 30_000)
		join.Protocols[0].Metadata = nil
		joined := ask[*kmsg.JoinGroupResponse](w, join, 3)
		require.Zero(t, joined.ErrorCode)
		in := kmsg.NewPtrDescribeGroupsRequest()
		in.Groups = slices.Repeat([]string{"g"}, 20_000)
		refuses[*kmsg.DescribeGroupsResponse](w, in, 6)
	})
}

// The same of a cheap expression: every owner change would revoke all partitions of every group that subscribes by expression.
func TestCoordinator_NewOwnerKeepsAssignmentOfACheapExpression(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		out := ask[*kmsg.ConsumerGroupHeartbeatResponse](w, subscribing("g", "m", "u.*"), 1)
		out = beatConsumer(w, "g", "m", out.MemberEpoch)
		before := describeConsumers(w, "g")
		time.Sleep(5 * time.Second) // sleeps: in the bubble
		w.changeOwner()
		for range 4 {
			time.Sleep(5 * time.Second) // sleeps: in the bubble
			out = beatConsumer(w, "g", "m", out.MemberEpoch)
			require.Zero(t, out.ErrorCode)
			d := describeConsumers(w, "g")
			t.Logf("answer %v, group epoch %d, state %s", out.Assignment, d.Epoch, d.State)
			if out.Assignment != nil {
				require.NotEmpty(t, out.Assignment.Topics, "the member lost its partitions")
			}
		}
		require.Equal(t, before.Epoch, describeConsumers(w, "g").Epoch)
	})
}

// Heartbeats that wait for one expression must not fill session.Limits.Forwards (4096), which all other requests of an agent share. A
// heartbeat without an expression is answered meanwhile, and each waiting one within a second.
func TestCoordinator_WaitingHeartbeatsAreBounded(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		release := make(chan struct{})
		defer close(release)
		require.NoError(t, w.patterns.Match(t.Context(), "10.0.0.66", "hostile", func(func(string) bool) { <-release }, func([]string, error) {}))
		var answers []func() (*kmsg.ConsumerGroupHeartbeatResponse, error)
		for i := range 4096 {
			answers = append(answers, send[*kmsg.ConsumerGroupHeartbeatResponse](w, subscribing(fmt.Sprint("h", i), "m", "u.*"), 1))
		}
		waiting := func() (n int) {
			synctest.Wait()
			for _, answer := range answers {
				if _, err := answer(); errors.Is(err, errNoAnswer) {
					n++
				}
			}
			return n
		}
		require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("plain", "m"), 1).ErrorCode)
		require.Equal(t, 256, waiting())
		time.Sleep(time.Second) // sleeps: in the bubble
		require.Zero(t, waiting())
	})
}
