package differential

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsets draws a commit, a fetch or a deletion of offsets.
func (d *draw) offsets() func(c *client) kmsg.Request {
	return d.weighted(50, d.offsetCommit, 40, d.offsetFetch, 10, d.offsetDelete)
}

// owner draws who commits or fetches: a member at its epoch, beside it, or nobody.
func (d *draw) owner() func(c *client) (member string, epoch int32) {
	n := d.IntN(100)
	return func(c *client) (string, int32) {
		id, epoch := c.memberOf()
		switch {
		case n < 60:
			return id, epoch
		case n < 75:
			return "", -1
		case n < 82:
			return id, epoch - 1
		case n < 88:
			return id, epoch + 1
		case n < 92:
			return "nobody", epoch
		case n < 96:
			return "", epoch
		default:
			return id, -1
		}
	}
}

// place draws a topic with a partition of it; few of them do not exist.
func (d *draw) place() (topic string, partition int32) {
	topic = d.either("four", "four", "four", "two", "six", "one", "missing")
	return topic, int32(d.IntN(5))
}

func (h *half) topicID(name string) [16]byte {
	if id, ok := h.server.topics[name]; ok {
		return id
	}
	return [16]byte{0xab}
}

// aGroup draws a group of the sequence: mostly that of the client.
func (d *draw) aGroup() func(c *client) string {
	stray := d.chance(10)
	return func(c *client) string {
		if stray {
			return c.group(1)
		}
		return c.group(c.traits.main)
	}
}

func (d *draw) offsetCommit() func(c *client) kmsg.Request {
	version, group, owner, instance := d.version(kmsg.OffsetCommit), d.aGroup(), d.owner(), d.instance(d.chance(80))
	topic, partition := d.place()
	offset, epoch, note := int64(d.IntN(100)), int32(d.IntN(4)-1), d.either("", "a note")
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group = group(c)
		req.MemberID, req.Generation = owner(c)
		req.InstanceID = instance(c)
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = topic, c.topicID(topic)
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, offset, epoch, optional(note)
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		req.SetVersion(version)
		if version < 7 {
			req.InstanceID = nil
		}
		return req
	}
}

func (d *draw) offsetFetch() func(c *client) kmsg.Request {
	version, group, owner := d.version(kmsg.OffsetFetch), d.aGroup(), d.owner()
	topic, partition := d.place()
	all, stable, plain := d.chance(50), d.chance(30), d.chance(50)
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.RequireStable = stable && version >= 7
		req.SetVersion(version)
		if version < 8 {
			req.Group = group(c)
			if !all || version < 2 {
				req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{partition, 0}}}
			}
			return req
		}
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group, g.MemberEpoch = group(c), -1
		if !plain && version >= 9 {
			member, epoch := owner(c)
			g.MemberID, g.MemberEpoch = &member, epoch
		}
		if !all {
			g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, TopicID: c.topicID(topic), Partitions: []int32{partition, 0}}}
		}
		req.Groups = append(req.Groups, g)
		return req
	}
}

func (d *draw) offsetDelete() func(c *client) kmsg.Request {
	group := d.aGroup()
	topic, partition := d.place()
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = group(c)
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic, t.Partitions = topic, []kmsg.OffsetDeleteRequestTopicPartition{{Partition: partition}, {Partition: 0}}
		req.Topics = append(req.Topics, t)
		return req
	}
}

// admin draws a request about groups.
func (d *draw) admin() func(c *client) kmsg.Request {
	return d.weighted(35, d.describeGroups, 35, d.describeConsumerGroups, 20, d.listGroups, 10, d.deleteGroups)
}

func (d *draw) describeGroups() func(c *client) kmsg.Request {
	version, both := d.version(kmsg.DescribeGroups), d.chance(30)
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{c.group(0)}
		if both {
			req.Groups = append(req.Groups, c.group(1))
		}
		req.SetVersion(version)
		return req
	}
}

func (d *draw) describeConsumerGroups() func(c *client) kmsg.Request {
	version, both := d.version(kmsg.ConsumerGroupDescribe), d.chance(30)
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrConsumerGroupDescribeRequest()
		req.Groups = []string{c.group(0)}
		if both {
			req.Groups = append(req.Groups, c.group(1))
		}
		req.SetVersion(version)
		return req
	}
}

func (d *draw) listGroups() func(c *client) kmsg.Request {
	version := d.version(kmsg.ListGroups)
	states, types := []string(nil), []string(nil)
	if d.chance(50) {
		states = []string{d.either("Stable", "empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead", "bogus")}
	}
	if d.chance(40) {
		types = []string{d.either("classic", "Consumer", "share", "bogus")}
	}
	return func(*client) kmsg.Request {
		req := kmsg.NewPtrListGroupsRequest()
		req.SetVersion(version)
		if version >= 4 {
			req.StatesFilter = states
		}
		if version >= 5 {
			req.TypesFilter = types
		}
		return req
	}
}

func (d *draw) deleteGroups() func(c *client) kmsg.Request {
	version := d.version(kmsg.DeleteGroups)
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{c.group(0), c.group(1)}
		req.SetVersion(version)
		return req
	}
}
