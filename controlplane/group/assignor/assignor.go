package assignor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/freshet-io/freshet/metadata/id"
)

// Names of the assignors, as group configurations and clients spell them.
const (
	Uniform = "uniform"
	Range   = "range"
)

// ErrUnknown is returned for the name of an assignor that is none.
var ErrUnknown = errors.New("assignor: unknown assignor")

// ErrUnknownTopic is returned when a member subscribes to a topic that has no partition count.
var ErrUnknownTopic = errors.New("assignor: subscribed topic does not exist")

// Member is what an assignor has to know of one member.
type Member struct {
	ID       string
	Instance string // group.instance.id; empty: a dynamic member
	// Topics it subscribes to, in ascending order of their ids, each once.
	Topics []id.Topic
	// Assigned are the partitions that the last assignment gave it, in ascending order.
	Assigned []id.TopicPartition
}

// Group is what is to be assigned.
type Group struct {
	Members    []Member           // each id once; any order
	Partitions map[id.Topic]int32 // partition counts, at least of every topic subscribed to
}

// Assignment gives each member's partitions, in ascending order, by the member's id. It may share memory with the
// group's Assigned; neither may be changed.
type Assignment map[string][]id.TopicPartition

// Names gives the assignors that there are, the default one first.
func Names() []string { return []string{Uniform, Range} }

// Known tells whether name is the name of an assignor.
func Known(name string) bool { return name == Uniform || name == Range }

// Assign divides the partitions of g by the named assignor. It fails with ErrUnknown or ErrUnknownTopic.
func Assign(name string, g Group) (Assignment, error) {
	if !Known(name) {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	for _, m := range g.Members {
		for _, t := range m.Topics {
			if _, ok := g.Partitions[t]; !ok {
				return nil, fmt.Errorf("%w: %s", ErrUnknownTopic, t)
			}
		}
	}
	members := slices.Clone(g.Members)
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	g.Members = members
	switch {
	case len(members) == 0:
		return Assignment{}, nil
	case name == Range:
		return assignRanges(g), nil
	case homogeneous(members):
		return newHomogeneous(g).assign(), nil
	default:
		return newHeterogeneous(g).assign(), nil
	}
}

// homogeneous tells whether all members subscribe to the same topics.
func homogeneous(members []Member) bool {
	return !slices.ContainsFunc(members[1:], func(m Member) bool { return !slices.Equal(m.Topics, members[0].Topics) })
}

func compareTopics(a, b id.Topic) int {
	return id.TopicPartition{Topic: a}.Compare(id.TopicPartition{Topic: b})
}

func sorted(partitions []id.TopicPartition) []id.TopicPartition {
	slices.SortFunc(partitions, id.TopicPartition.Compare)
	return partitions
}
