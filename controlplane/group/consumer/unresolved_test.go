package consumer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/pattern"
)

// withMatches overrides the outcome of expressions.
type withMatches struct {
	*topics
	matches *Matches
}

func (c withMatches) Matching(source string) Matches {
	if c.matches != nil {
		m := *c.matches
		if m.Known && m.Version == 0 {
			m.Version = c.version
		}
		return m
	}
	return c.topics.Matching(source)
}

type costlyWorld struct {
	t   *testing.T
	cat withMatches
	now time.Time
	g   *Group
}

func newCostlyWorld(t *testing.T) *costlyWorld {
	t.Helper()
	w := &costlyWorld{t: t, cat: withMatches{topics: newTopics()}, now: time.UnixMilli(1_000_000)}
	w.g = New("g", Config{})
	w.cat.set("app", 1)
	return w
}

func (w *costlyWorld) beat(member string, epoch int32, expression *string) *kmsg.ConsumerGroupHeartbeatResponse {
	in := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	in.Group, in.MemberID, in.MemberEpoch, in.SubscribedTopicRegex = "g", member, epoch, expression
	if epoch == 0 {
		in.RebalanceTimeoutMillis, in.Topics = 60_000, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	var out *kmsg.ConsumerGroupHeartbeatResponse
	s := w.g.Heartbeat(w.now, Client{ID: "c", Host: "/h"}, in, w.cat, func(r *kmsg.ConsumerGroupHeartbeatResponse) { out = r })
	for _, a := range s.Answers {
		a()
	}
	require.Zero(w.t, out.ErrorCode)
	return out
}

// An expression that was resolved and is too slow on a busy machine later (pattern.ErrTooSlow) keeps its last topics.
func TestHeartbeat_TooSlowResolutionKeepsTheLastTopics(t *testing.T) {
	w := newCostlyWorld(t)
	x := "app.*"
	out := w.beat("m", 0, &x)
	require.Len(t, out.Assignment.Topics, 1)
	w.cat.set("other", 1)
	w.cat.matches = &Matches{Known: true, Err: pattern.ErrTooSlow}
	for range 5 {
		w.now = w.now.Add(11 * time.Second)
		out = w.beat("m", out.MemberEpoch, nil)
		if out.Assignment != nil {
			require.NotEmpty(t, out.Assignment.Topics, "all partitions are taken away")
		}
	}
}

// While a new owner resolves an expression, its members keep their partitions and epoch.
func TestHeartbeat_UnknownExpressionKeepsAssignmentAtOwnerChange(t *testing.T) {
	w := newCostlyWorld(t)
	x := "app.*"
	out := w.beat("m", 0, &x)
	require.Len(t, out.Assignment.Topics, 1)
	before := w.g.Epoch()
	head, values := w.g.encodeHead(), encodeMember(w.g.members["m"])
	var err error
	w.g, err = Restore("g", Config{}, w.now, head, func(yield func(string, []byte) bool) { yield("m", values) })
	require.NoError(t, err)
	w.cat.matches = &Matches{} // not known yet
	for range 5 {
		w.now = w.now.Add(5 * time.Second)
		out = w.beat("m", out.MemberEpoch, nil)
		if out.Assignment != nil {
			require.NotEmpty(t, out.Assignment.Topics, "all partitions are taken away")
		}
	}
	require.Equal(t, before, w.g.Epoch())
}
