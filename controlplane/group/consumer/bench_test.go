package consumer

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/step"
)

// crowd is a group of n members that share 4 n partitions, settled.
func crowd(tb testing.TB, n int) (*Group, *topics, time.Time) {
	tb.Helper()
	cat := newTopics()
	cat.set("t", int32(4*n))
	g, now := New("g", Config{}), time.UnixMilli(1)
	owned := make(map[int]reported)
	epoch := make(map[int]int32)
	for range 5 {
		for i := range n {
			req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, "g", fmt.Sprintf("m%d", i), epoch[i]
			req.RebalanceTimeoutMillis, req.SubscribedTopicNames, req.Topics = 60_000, []string{"t"}, reported{}
			if epoch[i] > 0 {
				req.Topics = append(req.Topics, owned[i]...)
			}
			for _, answer := range g.Heartbeat(now, Client{ID: "c"}, req, cat, func(resp *kmsg.ConsumerGroupHeartbeatResponse) {
				require.Zero(tb, resp.ErrorCode)
				epoch[i] = resp.MemberEpoch
				if resp.Assignment != nil {
					owned[i] = nil
					for _, topic := range resp.Assignment.Topics {
						owned[i] = append(owned[i], kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: topic.TopicID, Partitions: topic.Partitions})
					}
				}
			}).Answers {
				answer()
			}
		}
	}
	require.Equal(tb, "Stable", g.State())
	return g, cat, now
}

func steadyRequest(g *Group, name string) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, "g", name, g.epoch
	return req
}

// BenchmarkHeartbeat_Steady is nearly all that a coordinator does.
func BenchmarkHeartbeat_Steady(b *testing.B) {
	g, cat, now := crowd(b, 200)
	req := steadyRequest(g, "m77")
	reply := func(*kmsg.ConsumerGroupHeartbeatResponse) {}
	b.ReportAllocs()
	for b.Loop() {
		s := g.Heartbeat(now, Client{ID: "c"}, req, cat, reply)
		s.Answers[0]()
	}
}

// BenchmarkHeartbeat_JoinAndLeaveOf200 is a member that comes to and goes from 200 others: two group epochs, one target.
func BenchmarkHeartbeat_JoinAndLeaveOf200(b *testing.B) {
	g, cat, now := crowd(b, 200)
	join := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	join.Version, join.Group, join.MemberID = 1, "g", "new"
	join.RebalanceTimeoutMillis, join.SubscribedTopicNames, join.Topics = 60_000, []string{"t"}, reported{}
	leave := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	leave.Version, leave.Group, leave.MemberID, leave.MemberEpoch = 1, "g", "new", epochLeave
	logged := 0
	for b.Loop() {
		for _, req := range []*kmsg.ConsumerGroupHeartbeatRequest{join, leave} {
			s := g.Heartbeat(now, Client{ID: "c"}, req, cat, func(resp *kmsg.ConsumerGroupHeartbeatResponse) {})
			logged += size(s)
		}
	}
	b.ReportMetric(float64(logged)/float64(b.N), "logged-B/op")
}

func size(s step.Step) int {
	n := 0
	for _, w := range s.Writes {
		n += len(w.Head)
		for _, m := range w.Members {
			n += len(m.Value)
		}
	}
	return n
}

func TestHeartbeat_SteadyWritesNothingAndAChangeWritesLittle(t *testing.T) {
	g, cat, now := crowd(t, 200)
	s := g.Heartbeat(now, Client{ID: "c"}, steadyRequest(g, "m77"), cat, func(*kmsg.ConsumerGroupHeartbeatResponse) {})
	require.Empty(t, s.Writes)
	require.Len(t, s.Answers, 1)

	req := steadyRequest(g, "m77")
	rack := "r2"
	req.RackID = &rack
	s = g.Heartbeat(now, Client{ID: "c"}, req, cat, func(*kmsg.ConsumerGroupHeartbeatResponse) {})
	require.Len(t, s.Writes, 1)
	require.Len(t, s.Writes[0].Members, 1)
	require.Less(t, size(s), 200)
}
