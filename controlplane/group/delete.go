package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/group/classic"
	"github.com/freshet-io/freshet/controlplane/group/step"
	"github.com/freshet-io/freshet/metadata"
)

// DeleteGroups, key 42, versions 0-3: groups without members, with their offsets.
//
//	2  is flexible
//	3  has a message for each group: null, as Kafka's for classic and consumer groups (GroupCoordinatorShard.deleteGroups)

func (c *call) deleteGroups(in *kmsg.DeleteGroupsRequest) {
	out := kmsg.NewPtrDeleteGroupsResponse()
	seen := map[string]bool{}
	for _, name := range in.Groups {
		if !seen[name] {
			seen[name] = true
			g := kmsg.NewDeleteGroupsResponseGroup()
			g.Group = name
			out.Groups = append(out.Groups, g)
		}
	}
	all := c.gather(out)
	for i := range out.Groups {
		all.add()
		answer := func(code int16) {
			out.Groups[i].ErrorCode = code
			all.done(nil)
		}
		if err := c.Coordinator.with(out.Groups[i].Group, func(g *group) step.Step { return g.delete(answer) }); err != nil {
			answer(kerr.CoordinatorNotAvailable.Code)
		}
	}
	all.done(nil)
}

// delete begins to delete the group at an administrator's wish.
func (g *group) delete(answer func(code int16)) step.Step {
	code := int16(0)
	switch {
	case !g.stored():
		code = kerr.GroupIDNotFound.Code
	case !g.empty():
		code = kerr.NonEmptyGroup.Code
	}
	if code != 0 {
		return step.Step{Answers: []func(){func() { answer(code) }}}
	}
	g.c.log.Info("group deleted", zap.String("group", g.name))
	life := g.life
	s := g.remove()
	s.Answer(func() {
		if life.err() != nil {
			answer(kerr.CoordinatorNotAvailable.Code)
			return
		}
		answer(0)
	})
	return s
}

// remove has the log forget an empty group, and everything that was committed for it.
func (g *group) remove() step.Step {
	var s step.Step
	if g.consumer != nil {
		s.Add(g.consumer.Unload())
	} else {
		s.Add(g.classic.Unload())
	}
	g.pipe.push(&metadata.DeleteGroup{Group: g.name})
	g.classic, g.consumer, g.simple = classic.New(g.name, g.c.classic), nil, false
	return s
}
