package group

import (
	"cmp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/classic"
	"github.com/freshet-io/freshet/controlplane/session"
)

// allGroupOperations is what an unrestricted principal may do with a group: the bits of READ, DELETE, DESCRIBE,
// DESCRIBE_CONFIGS and ALTER_CONFIGS (AclEntry.supportedOperations).
const allGroupOperations = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11

// DescribeGroups, key 15, versions 0-6: groups of the classic protocol.
//
//	3  can tell the operations allowed
//	4  tells members' instance ids
//	5  is flexible
//	6  tells groups that do not exist by GROUP_ID_NOT_FOUND and a message (KIP-1043), before by state Dead

// describeNotFoundSince is the first version that tells groups that do not exist.
const describeNotFoundSince = 6

func (c *call) describeGroups(in *kmsg.DescribeGroupsRequest) {
	out := kmsg.NewPtrDescribeGroupsResponse()
	all := c.gather(out)
	size := session.AnswerOf(c.ctx)
	known, sizes := make(map[string]int), make(map[string]int) // positions in the answer, and bytes, by name
	for _, name := range in.Groups {
		if at, twice := known[name]; twice {
			if err := size.Add(sizes[name]); err != nil {
				all.done(err)
				return
			}
			out.Groups = append(out.Groups, out.Groups[at])
			continue
		}
		known[name] = len(out.Groups)
		var described kmsg.DescribeGroupsResponseGroup
		err := all.ask(name, func(g *group) {
			if g.classic != nil && g.classic.Stored() {
				described = g.classic.Describe()
				return
			}
			described = kmsg.NewDescribeGroupsResponseGroup()
			described.State = classic.Dead.String()
			if in.Version >= describeNotFoundSince {
				fault := groupNotFound(g, "classic")
				described.ErrorCode, described.ErrorMessage = fault.Code, &fault.Message
			}
		})
		described.Group = name
		one := kmsg.DescribeGroupsResponse{Groups: []kmsg.DescribeGroupsResponseGroup{described}}
		sizes[name] = encodedBytes(&one, in.Version)
		if err = cmp.Or(err, size.Add(sizes[name])); err != nil {
			all.done(err)
			return
		}
		if in.IncludeAuthorizedOperations && described.ErrorCode == 0 {
			described.AuthorizedOperations = allGroupOperations
		}
		out.Groups = append(out.Groups, described)
	}
	all.done(nil)
}

// ConsumerGroupDescribe, key 69, versions 0-1: groups of the consumer protocol (KIP-848).
//
//	1  tells members' kind (KIP-1099)

func (c *call) consumerGroupDescribe(in *kmsg.ConsumerGroupDescribeRequest) {
	out := kmsg.NewPtrConsumerGroupDescribeResponse()
	all := c.gather(out)
	size := session.AnswerOf(c.ctx)
	known, sizes := make(map[string]int), make(map[string]int) // positions in the answer, and bytes, by name
	for _, name := range in.Groups {
		if at, twice := known[name]; twice {
			if err := size.Add(sizes[name]); err != nil {
				all.done(err)
				return
			}
			out.Groups = append(out.Groups, out.Groups[at])
			continue
		}
		known[name] = len(out.Groups)
		described := kmsg.NewConsumerGroupDescribeResponseGroup()
		if name == "" {
			described.ErrorCode = kerr.InvalidGroupID.Code
			out.Groups = append(out.Groups, described)
			continue
		}
		err := all.ask(name, func(g *group) {
			if g.consumer != nil && g.consumer.Stored() {
				described = g.consumer.Describe(c.topics.Load())
				return
			}
			fault := groupNotFound(g, "consumer")
			described.ErrorCode, described.ErrorMessage = fault.Code, &fault.Message
		})
		described.Group = name
		one := kmsg.ConsumerGroupDescribeResponse{Groups: []kmsg.ConsumerGroupDescribeResponseGroup{described}}
		sizes[name] = encodedBytes(&one, in.Version)
		if err = cmp.Or(err, size.Add(sizes[name])); err != nil {
			all.done(err)
			return
		}
		if in.IncludeAuthorizedOperations && described.ErrorCode == 0 {
			described.AuthorizedOperations = allGroupOperations
		}
		out.Groups = append(out.Groups, described)
	}
	all.done(nil)
}
