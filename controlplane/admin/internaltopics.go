package admin

import (
	"fmt"
	"iter"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/metadata"
)

// shownTopic returns a topic as clients see it: one of the state, or an internal one, which the state does not have.
func shownTopic(s *metadata.State, name string) (*metadata.Topic, bool) {
	if t, ok := s.TopicByName(name); ok {
		return t, true
	}
	if t := internaltopic.ByName(name); t != nil && showsInternal(s, t) {
		return &metadata.Topic{
			ID: t.ID, Name: t.Name, Partitions: internaltopic.Partitions, ReplicationFactor: internaltopic.ReplicationFactor, Configs: t.Configs,
		}, true
	}
	return nil, false
}

// showsInternal reports whether clients see an internal topic: Kafka creates __consumer_offsets for the first group, and
// __transaction_state for the first transactional ID.
func showsInternal(s *metadata.State, t *internaltopic.Topic) bool {
	return t == &internaltopic.Offsets && s.HasGroups() || t == &internaltopic.Transactions && s.HasTransactions()
}

// shownTopics returns all topics that clients see, in the order of names.
func shownTopics(s *metadata.State) iter.Seq[*metadata.Topic] {
	return func(yield func(*metadata.Topic) bool) {
		rest := internaltopic.All()
		internal := func(before string) bool {
			for len(rest) > 0 && (before == "" || rest[0].Name < before) {
				t, ok := shownTopic(s, rest[0].Name)
				rest = rest[1:]
				if ok && !yield(t) {
					return false
				}
			}
			return true
		}
		for t := range s.Topics() {
			if !internal(t.Name) {
				return
			}
			if len(rest) > 0 && rest[0].Name == t.Name {
				rest = rest[1:]
			}
			if !yield(t) {
				return
			}
		}
		internal("")
	}
}

// fixed refuses to change an internal topic that the state does not have. Kafka lets admins delete, extend and configure
// its own.
func fixed(s *metadata.State, name string) *apiError {
	if _, ok := s.TopicByName(name); ok || internaltopic.ByName(name) == nil {
		return nil
	}
	return failed(kerr.InvalidTopicException, fmt.Sprintf("The internal topic '%s' cannot be changed.", name))
}
