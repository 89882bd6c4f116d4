package admin

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata"
)

// CreatePartitions, key 37, versions 0-3.
//
//	2  is flexible

func (c *call) createPartitions(ctx context.Context, in *kmsg.CreatePartitionsRequest) (*kmsg.CreatePartitionsResponse, error) {
	out := kmsg.NewPtrCreatePartitionsResponse()
	err := c.change(ctx, func() error {
		names, commands, errs, err := c.checkNewPartitions(in)
		if err != nil {
			return err
		}
		if !in.ValidateOnly {
			if err := c.proposePartitions(ctx, commands, errs); err != nil {
				return err
			}
		}
		out.ThrottleMillis = throttleMs(errs)
		for i, name := range names {
			t := kmsg.NewCreatePartitionsResponseTopic()
			t.Topic, t.ErrorCode, t.ErrorMessage = name, errs[i].code(), errs[i].text()
			out.Topics = append(out.Topics, t)
		}
		return nil
	})
	return out, err
}

// checkNewPartitions returns the command or the error of each topic named.
func (c *call) checkNewPartitions(in *kmsg.CreatePartitionsRequest) (names []string, commands []*metadata.CreatePartitions, errs []*apiError, err error) {
	count := map[string]int{}
	for _, t := range in.Topics {
		count[t.Topic]++
	}
	err = c.read(func(s *metadata.State) error {
		view, left := viewOf(s, c.forward), int32(maxPartitionsPerRequest)
		for i := range in.Topics {
			t := &in.Topics[i]
			if count[t.Topic] == 0 {
				continue // answered already
			}
			names = append(names, t.Topic)
			if count[t.Topic] > 1 {
				count[t.Topic] = 0
				commands, errs = append(commands, nil), append(errs, failed(kerr.InvalidRequest, "Duplicate topic name."))
				continue
			}
			command, fault := newPartitions(s, &view, t, &left)
			commands, errs = append(commands, command), append(errs, fault)
		}
		return nil
	})
	return names, commands, errs, err
}

// newPartitions checks one topic. It takes the new partitions from left, the partitions that the request may still create.
func newPartitions(s *metadata.State, v *clientView, t *kmsg.CreatePartitionsRequestTopic, left *int32) (*metadata.CreatePartitions, *apiError) {
	if fault := fixed(s, t.Topic); fault != nil {
		return nil, fault
	}
	topic, ok := s.TopicByName(t.Topic)
	switch {
	case !ok:
		return nil, plain(kerr.UnknownTopicOrPartition)
	case t.Count == topic.Partitions:
		return nil, failed(kerr.InvalidPartitions, fmt.Sprintf("Topic already has %d partition(s).", topic.Partitions))
	case t.Count < topic.Partitions:
		return nil, failed(kerr.InvalidPartitions, fmt.Sprintf("The topic %s currently has %d partition(s); %d would not be an increase.",
			t.Topic, topic.Partitions, t.Count))
	case t.Count > metadata.MaxPartitions:
		return nil, failed(kerr.InvalidPartitions, fmt.Sprintf("A topic has at most %d partitions.", metadata.MaxPartitions))
	}
	additional := t.Count - topic.Partitions
	if additional > *left {
		return nil, failed(kerr.PolicyViolation, "Excessively large number of partitions per request.")
	}
	if t.Assignment != nil {
		if len(t.Assignment) != int(additional) {
			return nil, failed(kerr.InvalidReplicaAssignment, fmt.Sprintf("Attempted to add %d additional partition(s), but only %d "+
				"assignment(s) were specified.", additional, len(t.Assignment)))
		}
		for _, a := range t.Assignment {
			factor := int(topic.ReplicationFactor)
			if shown := v.shownReplicas(topic); len(a.Replicas) == shown {
				factor = shown // a tool assigns as many as it reads of the other partitions
			}
			if fault := checkReplicas(a.Replicas, factor); fault != nil {
				return nil, fault
			}
		}
	}
	*left -= additional
	return &metadata.CreatePartitions{ID: topic.ID, Count: t.Count}, nil
}

func (c *call) proposePartitions(ctx context.Context, creations []*metadata.CreatePartitions, errs []*apiError) error {
	var commands []metadata.Command
	var places []int
	for i, command := range creations {
		if command != nil {
			commands, places = append(commands, command), append(places, i)
		}
	}
	results, err := c.propose(ctx, commands...)
	for i, r := range results {
		errs[places[i]] = commandError(r.Err)
	}
	return err
}
