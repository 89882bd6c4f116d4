package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// DeleteTopics, key 20, versions 1-6.
//
//	1  has a throttle time
//	4  is flexible
//	5  answers error messages
//	6  names topics by name or id

// topicRef is a topic of a request, by name or by id.
type topicRef struct {
	name *string
	id   id.Topic
	err  *apiError
}

func (c *call) deleteTopics(ctx context.Context, in *kmsg.DeleteTopicsRequest) (*kmsg.DeleteTopicsResponse, error) {
	out := kmsg.NewPtrDeleteTopicsResponse()
	refs := topicRefs(in)
	err := c.change(ctx, func() error {
		if err := c.read(func(s *metadata.State) error { resolve(s, refs); return nil }); err != nil {
			return err
		}
		return c.proposeDeletes(ctx, refs)
	})
	for _, ref := range refs {
		t := kmsg.NewDeleteTopicsResponseTopic()
		t.Topic, t.TopicID, t.ErrorCode, t.ErrorMessage = ref.name, ref.id, ref.err.code(), ref.err.text()
		out.Topics = append(out.Topics, t)
	}
	return out, err
}

// topicRefs returns the topics of the request, each once, with an error if the request names one twice or by no valid reference.
func topicRefs(in *kmsg.DeleteTopicsRequest) []*topicRef {
	var refs []*topicRef
	byName, byID := map[string]*topicRef{}, map[id.Topic]*topicRef{}
	addName := func(name string) {
		if before := byName[name]; before != nil {
			before.err = failed(kerr.InvalidRequest, "Duplicate topic name.")
			return
		}
		byName[name] = &topicRef{name: &name}
		refs = append(refs, byName[name])
	}
	for _, name := range in.TopicNames {
		addName(name)
	}
	for _, t := range in.Topics {
		topic := id.Topic(t.TopicID)
		switch {
		case t.Topic != nil && topic != (id.Topic{}):
			refs = append(refs, &topicRef{name: t.Topic, id: topic, err: failed(kerr.InvalidRequest, "You may not specify both topic name and topic id.")})
		case t.Topic != nil:
			addName(*t.Topic)
		case topic == (id.Topic{}):
			refs = append(refs, &topicRef{err: failed(kerr.InvalidRequest, "Neither topic name nor id were specified.")})
		case byID[topic] != nil:
			byID[topic].err = failed(kerr.InvalidRequest, "Duplicate topic id.")
		default:
			byID[topic] = &topicRef{id: topic}
			refs = append(refs, byID[topic])
		}
	}
	return refs
}

// resolve finds the topics meant.
func resolve(s *metadata.State, refs []*topicRef) {
	given := map[id.Topic]bool{}
	for _, ref := range refs {
		if ref.err == nil && ref.name == nil {
			if t, ok := s.Topic(ref.id); ok {
				ref.name = &t.Name
				given[ref.id] = true
			} else if internaltopic.Has(ref.id) {
				ref.err = plain(kerr.InvalidTopicException)
			} else {
				ref.err = plain(kerr.UnknownTopicID)
			}
		}
	}
	for _, ref := range refs {
		if ref.err != nil || ref.id != (id.Topic{}) {
			continue
		}
		t, ok := s.TopicByName(*ref.name)
		switch fault := fixed(s, *ref.name); {
		case fault != nil:
			ref.err = fault
		case !ok:
			ref.err = plain(kerr.UnknownTopicOrPartition)
		case given[t.ID]:
			ref.id, ref.err = t.ID, failed(kerr.InvalidRequest, "The provided topic name maps to an ID that was already supplied.")
		default:
			ref.id = t.ID
		}
	}
}

func (c *call) proposeDeletes(ctx context.Context, refs []*topicRef) error {
	var commands []metadata.Command
	var places []*topicRef
	for _, ref := range refs {
		if ref.err == nil {
			commands, places = append(commands, &metadata.DeleteTopic{ID: ref.id, KeepMs: c.cfg.UndeleteMs}), append(places, ref)
		}
	}
	results, err := c.propose(ctx, commands...)
	for i, r := range results {
		places[i].err = commandError(r.Err)
	}
	return err
}
