package group

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/group/classic"
	"github.com/freshet-io/freshet/controlplane/group/consumer"
	"github.com/freshet-io/freshet/controlplane/group/step"
)

// ConsumerGroupHeartbeat, key 68, versions 0-1 (KIP-848).
//
//	1  has regular expressions, and members make their ids themselves
//
// A first member of the consumer protocol makes a consumer group of a classic one (GroupMetadataManager
// .getOrMaybeCreateConsumerGroup): online if that has members, else in its place.

func (c *call) consumerGroupHeartbeat(in *kmsg.ConsumerGroupHeartbeatRequest) {
	if err := consumer.Validate(in, c.consumer.Assignors); err != nil {
		c.answer(consumerRefusal(in, err))
		return
	}
	if in.SubscribedTopicRegex == nil || *in.SubscribedTopicRegex == "" {
		c.consumerBeat(in)
		return
	}
	c.patterns.prepare(c.forward.Host, *in.SubscribedTopicRegex, c.topics.Load(), func(err error) {
		if err != nil {
			c.fail(err)
		} else if !c.spawn(func(context.Context) { c.consumerBeat(in) }) {
			c.consumerBeat(in)
		}
	})
}

// consumerBeat answers a heartbeat whose regular expression, if it has one, is resolved.
func (c *call) consumerBeat(in *kmsg.ConsumerGroupHeartbeatRequest) {
	c.with(in.Group, func(g *group, now time.Time) step.Step {
		if in.MemberEpoch == 0 { // joins
			if s, refused := g.refuseNew(c, now, in.MemberID, in.InstanceID); refused {
				return s
			}
		}
		answer := through[*kmsg.ConsumerGroupHeartbeatResponse](c, g)
		reply := func(out *kmsg.ConsumerGroupHeartbeatResponse) {
			if out.ErrorCode != kerr.InvalidRequest.Code { // consumer.Validate, which is no bound
				c.countRefusal(out.ErrorCode, in.Group)
			}
			answer(out)
		}
		switch {
		case g.consumer != nil:
			return g.afterConsumer(now, g.consumer.Heartbeat(now, c.client(), in, c.topics.Load(), reply))
		case in.MemberEpoch != 0:
			err := groupNotFound(g, "consumer")
			if in.MemberEpoch > 0 && !g.stored() {
				err.Message = "Consumer group " + g.name + " not found."
			}
			return c.say(consumerRefusal(in, err))
		}
		return g.becomeConsumer(c, now, in, reply)
	})
}

// becomeConsumer has a consumer group take the place of a classic one if the heartbeat's member joins it.
func (g *group) becomeConsumer(
	c *call, now time.Time, in *kmsg.ConsumerGroupHeartbeatRequest, reply func(*kmsg.ConsumerGroupHeartbeatResponse),
) step.Step {
	cfg, err := c.readConsumerConfig(g.name)
	if err != nil {
		return step.Step{Answers: []func(){func() { c.fail(err) }}}
	}
	next := consumer.New(g.name, cfg)
	if !g.classic.Empty() {
		record := g.classic.Record()
		if next, err = consumer.FromClassic(g.name, cfg, now, &record, c.topics.Load()); err != nil {
			return c.say(consumerRefusal(in, err))
		}
	}
	s := next.Heartbeat(now, c.client(), in, c.topics.Load(), reply)
	if len(s.Writes) == 0 {
		return s
	}
	if g.stored() {
		g.c.log.Info("classic group becomes a consumer group", zap.String("group", g.name), zap.Int("classic_members", g.classic.Size()))
	}
	s.Answers = append(g.classic.Release(kerr.RebalanceInProgress.Code).Answers, s.Answers...)
	g.classic, g.consumer, g.configs = nil, next, g.c.configs.Load()
	return g.afterConsumer(now, s)
}

// afterConsumer follows a call of the consumer machine: it may have made itself a classic group.
func (g *group) afterConsumer(now time.Time, s step.Step) step.Step {
	d := g.consumer.Downgraded()
	if d == nil {
		return s
	}
	g.c.log.Info("consumer group becomes a classic group", zap.String("group", g.name), zap.String("reason", d.Reason))
	g.classic, g.consumer = classic.Restore(g.name, g.c.classic, now, d.Record), nil
	if d.Rebalance {
		s.Add(g.classic.Rebalance(now, d.Reason))
	}
	return s
}

// groupNotFound says that a group does not exist, or is of the other kind.
func groupNotFound(g *group, kind string) *consumer.Error {
	message := "Group " + g.name + " not found."
	if g.stored() {
		message = "Group " + g.name + " is not a " + kind + " group."
	}
	return &consumer.Error{Code: kerr.GroupIDNotFound.Code, Message: message}
}

// consumerRefusal answers a heartbeat with an error of package consumer.
func consumerRefusal(in *kmsg.ConsumerGroupHeartbeatRequest, err error) kmsg.Response {
	out := refusal(in, kerr.UnknownServerError.Code).(*kmsg.ConsumerGroupHeartbeatResponse)
	var kafka *consumer.Error
	if errors.As(err, &kafka) {
		out.ErrorCode, out.ErrorMessage = kafka.Code, &kafka.Message
	}
	return out
}
