package group

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/group/step"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
)

// ListGroups, key 16, versions 0-5.
//
//	3  is flexible
//	4  filters by state (KIP-518)
//	5  filters by type (KIP-848)
//
// Filters compare without case. One with a value that Kafka does not know finds nothing.

func (c *call) listGroups(in *kmsg.ListGroupsRequest) {
	out := kmsg.NewPtrListGroupsResponse()
	all := c.gather(out)
	states, types, size := filterOf(in.StatesFilter), filterOf(in.TypesFilter), session.AnswerOf(c.ctx)
	all.done(c.eachStored(func(name string) error {
		var full error
		err := all.ask(name, func(g *group) {
			if l, ok := g.listed(); ok && states.takes(l.GroupState) && types.takes(l.GroupType) {
				if full = size.Add(len(l.Group) + len(l.ProtocolType) + len(l.GroupState) + len(l.GroupType)); full == nil {
					out.Groups = append(out.Groups, l)
				}
			}
		})
		return cmp.Or(err, full)
	}))
}

// filter is a set of lower-case values. An empty one takes all.
type filter map[string]bool

// filterOf returns the filter of a request, whose values may have spaces around them and letters of either case (KafkaApis.handleListGroupsRequest).
func filterOf(values []string) filter {
	f := make(filter, len(values))
	for _, v := range values {
		f[strings.ToLower(strings.TrimSpace(v))] = true
	}
	return f
}

func (f filter) takes(value string) bool { return len(f) == 0 || f[strings.ToLower(value)] }

// listed is the group's line in the list; false if it does not exist.
func (g *group) listed() (kmsg.ListGroupsResponseGroup, bool) {
	if g.consumer != nil {
		l := kmsg.NewListGroupsResponseGroup()
		l.Group, l.ProtocolType, l.GroupState, l.GroupType = g.name, g.consumer.ProtocolType(), g.consumer.State(), "consumer"
		return l, g.consumer.Stored()
	}
	return g.classic.Listed(), g.classic.Stored()
}

// groupsPerRead bounds the groups that one look at the state gives: it holds up commits.
const groupsPerRead = 256

// eachStored calls fn for each group in the state, in name order, until the tenure is over. A group that cannot be
// loaded is logged where that is found, and passed over.
func (c *Coordinator) eachStored(fn func(name string) error) error {
	for from, more := "", true; more; {
		var names []string
		if _, err := c.owner.Read(func(s *metadata.State) { names = groupNames(s, from) }); err != nil {
			return err
		}
		for _, name := range names {
			if err := fn(name); err != nil && !errors.Is(err, errUnreadable) {
				return err
			}
		}
		if more = len(names) == groupsPerRead; more {
			from = names[len(names)-1] + "\x00" // the next name that can be
		}
	}
	return nil
}

func groupNames(s *metadata.State, from string) []string {
	names := make([]string, 0, groupsPerRead)
	for info := range s.GroupsFrom(from) {
		names = append(names, info.Name)
		if len(names) == groupsPerRead {
			break
		}
	}
	return names
}

// loadAll loads every group at the begin of a tenure, so that the sessions of lost members end without a
// request about their group.
func (c *Coordinator) loadAll(ctx context.Context) {
	err := c.eachStored(func(name string) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return c.with(name, func(*group) step.Step { return step.Step{} })
	})
	if err != nil && ctx.Err() == nil {
		c.log.Warn("not all groups were loaded; they are when they are asked for", zap.Error(err))
	}
}
