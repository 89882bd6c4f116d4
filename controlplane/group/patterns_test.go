package group_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata/id"
)

func subscribing(group, member, expression string) *kmsg.ConsumerGroupHeartbeatRequest {
	in := joining(group, member)
	in.SubscribedTopicNames, in.SubscribedTopicRegex = nil, &expression
	return in
}

// A new topic that an expression matches is assigned, though its resolution is made in the background.
func TestCoordinator_ExpressionFindsNewTopics(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		out := ask[*kmsg.ConsumerGroupHeartbeatResponse](w, subscribing("g", "m", "u.*"), 1)
		require.Len(t, out.Assignment.Topics, 1)
		w.create("u2", 1)
		w.create("other", 1)
		var assigned []id.Topic
		for range 5 { // resolved at most every 10 s, and taken by the next heartbeat
			time.Sleep(5 * time.Second) // sleeps: in the bubble
			out = beatConsumer(w, "g", "m", out.MemberEpoch)
			require.Zero(t, out.ErrorCode)
			if out.Assignment != nil {
				for _, a := range out.Assignment.Topics {
					assigned = append(assigned, a.TopicID)
				}
			}
		}
		require.Contains(t, assigned, id.Topic(topicID("u2")))
		require.NotContains(t, assigned, id.Topic(topicID("other")))
	})
}

// An expression that a new owner has not resolved yet keeps the offsets of all topics.
func TestCoordinator_ExpressionsAreResolvedByANewOwner(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		out := ask[*kmsg.ConsumerGroupHeartbeatResponse](w, subscribing("g", "m", "u.*"), 1)
		out = beatConsumer(w, "g", "m", out.MemberEpoch)
		require.Zero(t, out.ErrorCode)
		epoch := out.MemberEpoch
		w.changeOwner()
		for range 3 {
			time.Sleep(5 * time.Second) // sleeps: in the bubble
			out = beatConsumer(w, "g", "m", out.MemberEpoch)
			require.Zero(t, out.ErrorCode)
		}
		require.Equal(t, epoch, out.MemberEpoch, "nothing changed for the member")
		require.Len(t, describeConsumers(w, "g").Members[0].Assignment.TopicPartitions, 1)
	})
}

func TestCoordinator_RefusesLargeExpressions(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		for _, expression := range []string{strings.Repeat("a", 1025), strings.Repeat("a{1000}", 11), "[a", "a)|(b"} {
			out := ask[*kmsg.ConsumerGroupHeartbeatResponse](w, subscribing("g", "m", expression), 1)
			require.Equal(t, kerr.InvalidRegularExpression.Code, out.ErrorCode, expression)
			require.NotNil(t, out.ErrorMessage)
		}
		for i := range 1200 { // beyond maxResolutions
			out := ask[*kmsg.ConsumerGroupHeartbeatResponse](w, subscribing(fmt.Sprint("g", i), "m", fmt.Sprintf("u|x%d", i)), 1)
			require.Zero(t, out.ErrorCode)
			require.Len(t, out.Assignment.Topics, 1)
		}
	})
}
