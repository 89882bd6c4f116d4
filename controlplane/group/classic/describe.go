package classic

import "github.com/twmb/franz-go/pkg/kmsg"

// Describe is the group's part of DescribeGroups. What members say of themselves is told only while the group is stable,
// as there is no protocol to say it under otherwise.
func (g *Group) Describe() kmsg.DescribeGroupsResponseGroup {
	d := kmsg.NewDescribeGroupsResponseGroup()
	d.Group, d.State, d.ProtocolType = g.id, g.state.String(), g.protocolType
	if g.state == Stable {
		d.Protocol = g.protocol
	}
	d.Members = make([]kmsg.DescribeGroupsResponseGroupMember, 0, g.roster.len())
	for _, m := range g.roster.list {
		described := kmsg.NewDescribeGroupsResponseGroupMember()
		described.MemberID, described.InstanceID = m.ID, m.Instance
		described.ClientID, described.ClientHost = m.ClientID, m.ClientHost
		described.ProtocolMetadata, described.MemberAssignment = []byte{}, m.Assignment
		if g.state == Stable {
			described.ProtocolMetadata = m.metadata(g.protocol)
		}
		if described.MemberAssignment == nil {
			described.MemberAssignment = []byte{}
		}
		d.Members = append(d.Members, described)
	}
	return d
}

// Listed is the group's line of ListGroups.
func (g *Group) Listed() kmsg.ListGroupsResponseGroup {
	l := kmsg.NewListGroupsResponseGroup()
	l.Group, l.ProtocolType, l.GroupState, l.GroupType = g.id, g.protocolType, g.state.String(), "classic"
	return l
}
