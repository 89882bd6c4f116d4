package ecosystem

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

const (
	groupPartitions = 4
	settled         = 2 * time.Second // without a change
)

// libraries gives the client libraries that people use, by name.
func libraries(t *testing.T) map[string]library {
	t.Helper()
	return map[string]library{
		"java":       foreign{harness.JavaWorker(t, "Members")},
		"librdkafka": foreign{harness.PythonWorker(t, "members.py")},
		"franz-go":   franz{members: make(map[string]*franzMember)},
	}
}

// crew is one group that reads a topic of groupPartitions, and the members it has.
type crew struct {
	group   group
	members map[string]library // by name
	before  map[string]view    // what they said when the crew settled
}

// crews gives a group of every library and protocol, without members.
func crews(b broker, topic string, libraries map[string]library) map[*crew]library {
	all := make(map[*crew]library)
	for name, l := range libraries {
		for _, protocol := range []string{"classic", "consumer"} {
			g := group{Group: name + "-" + protocol, Topic: topic, Protocol: protocol, Bootstrap: b.bootstrap}
			all[&crew{group: g, members: make(map[string]library)}] = l
		}
	}
	return all
}

// join adds a member.
func (c *crew) join(t *testing.T, l library, name string) {
	t.Helper()
	name = fmt.Sprintf("%s-%s", c.group.Group, name)
	l.join(t, name, c.group)
	c.members[name] = l
}

// settle waits until the members of all crews share the partitions evenly and nothing changes any more, and remembers what they
// say then.
func settle(t *testing.T, crews []*crew) {
	t.Helper()
	since := make(map[*crew]time.Time)
	awaitLong(t, "all groups share the partitions", func() bool {
		all := true
		for _, c := range crews {
			views, even := c.look(t), true
			for _, v := range views {
				even = even && v.Assigned*len(views) == groupPartitions
			}
			if !even || !maps.Equal(views, c.before) {
				since[c], c.before = time.Now(), views
			}
			all = all && time.Since(since[c]) > settled
		}
		return all
	})
}

// look gives what the members say, but for how much they read.
func (c *crew) look(t *testing.T) map[string]view {
	t.Helper()
	views := make(map[string]view)
	for name, l := range c.members {
		v := l.look(t, name)
		require.Empty(t, v.Failure, name)
		v.Records = 0
		views[name] = v
	}
	return views
}
