package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// describedGroup is a group with its members and offsets.
type describedGroup struct {
	listedGroup
	Assignor string        `json:"assignor"`
	Members  []groupMember `json:"members"`
	Offsets  []groupOffset `json:"offsets"`
}

type groupMember struct {
	Member     string `json:"member"`
	Instance   string `json:"instance,omitempty"`
	Client     string `json:"client"`
	Host       string `json:"host"`
	Partitions int    `json:"partitions"` // assigned
	assigned   kadm.TopicsSet
}

// groupOffset is one partition that the group has an offset of, or that a member is assigned.
type groupOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"` // -1 if there is none
	End       int64  `json:"end"`       // of the log; -1 if not known
	Lag       int64  `json:"lag"`       // -1 if not known
	Member    string `json:"member,omitempty"`
}

// DescribeGroups writes state, members, committed offsets and lag of groups.
func DescribeGroups(ctx context.Context, c GroupConfig, s Streams) error {
	return c.once(ctx, s, func(ctx context.Context, admin *kadm.Client) error { return c.describe(ctx, admin, s) })
}

func (c GroupConfig) describe(ctx context.Context, admin *kadm.Client, s Streams) error {
	listed, err := c.listGroups(ctx, admin)
	if err != nil {
		return err
	}
	groups := []describedGroup{}
	var faults []error
	for _, name := range c.Groups {
		i := slices.IndexFunc(listed, func(g listedGroup) bool { return g.Group == name })
		if i < 0 {
			faults = append(faults, explainGroup(name, kerr.GroupIDNotFound))
			continue
		}
		g := describedGroup{listedGroup: listed[i]}
		if err := c.patiently(ctx, func(ctx context.Context) error { return g.fill(ctx, admin) }); err != nil {
			faults = append(faults, explainGroup(name, err))
			continue
		}
		groups = append(groups, g)
	}
	if s.json() {
		faults = append(faults, s.WriteJSON(groups))
	} else {
		for i := range groups {
			faults = append(faults, groups[i].write(s.Out))
		}
	}
	return errors.Join(faults...)
}

// fill asks for the members and offsets of the group, and replaces those of an earlier call.
func (g *describedGroup) fill(ctx context.Context, admin *kadm.Client) error {
	g.Members, g.Offsets = []groupMember{}, []groupOffset{}
	if err := g.fillMembers(ctx, admin); err != nil {
		return err
	}
	return g.offsets(ctx, admin)
}

func (g *describedGroup) fillMembers(ctx context.Context, admin *kadm.Client) error {
	if g.Protocol == consumerGroup {
		described, err := admin.DescribeConsumerGroups(ctx, g.Group)
		if err = cmp.Or(err, described[g.Group].Err); err != nil {
			return err
		}
		g.Assignor = described[g.Group].AssignorName
		for _, m := range described[g.Group].Members {
			g.member(m.MemberID, m.InstanceID, m.ClientID, m.ClientHost, m.Assignment)
		}
	} else {
		described, err := admin.DescribeGroups(ctx, g.Group)
		if err = cmp.Or(err, described[g.Group].Err); err != nil {
			return err
		}
		g.Assignor = described[g.Group].Protocol
		for _, m := range described[g.Group].Members {
			assigned := kadm.TopicsSet{}
			if a, ok := m.Assigned.AsConsumer(); ok {
				for _, t := range a.Topics {
					assigned.Add(t.Topic, t.Partitions...)
				}
			}
			g.member(m.MemberID, m.InstanceID, m.ClientID, m.ClientHost, assigned)
		}
	}
	return nil
}

func (g *describedGroup) member(id string, instance *string, client, host string, assigned kadm.TopicsSet) {
	// Kafka shows addresses as Java writes them.
	m := groupMember{Member: id, Client: client, Host: strings.TrimPrefix(host, "/"), assigned: assigned}
	if instance != nil {
		m.Instance = *instance
	}
	assigned.Each(func(string, int32) { m.Partitions++ })
	g.Members = append(g.Members, m)
}

// offsets joins what is committed with what is assigned.
func (g *describedGroup) offsets(ctx context.Context, admin *kadm.Client) error {
	committed, err := admin.FetchOffsets(ctx, g.Group)
	if err != nil {
		return failed("fetch offsets", err)
	}
	all := kadm.TopicsSet{}
	committed.Each(func(o kadm.OffsetResponse) { all.Add(o.Topic, o.Partition) })
	for _, m := range g.Members {
		all.Merge(m.assigned)
	}
	if len(all) == 0 {
		return nil
	}
	ends, err := admin.ListEndOffsets(ctx, all.Topics()...)
	if err != nil {
		return failed("list end offsets", err)
	}
	for _, t := range all.Sorted() {
		for _, p := range t.Partitions {
			g.Offsets = append(g.Offsets, g.offset(t.Topic, p, committed, ends))
		}
	}
	return nil
}

func (g *describedGroup) offset(topic string, partition int32, committed kadm.OffsetResponses, ends kadm.ListedOffsets) groupOffset {
	o := groupOffset{Topic: topic, Partition: partition, Committed: -1, End: -1, Lag: -1}
	if at, ok := committed.Lookup(topic, partition); ok && at.Err == nil {
		o.Committed = at.At
	}
	if end, ok := ends.Lookup(topic, partition); ok && end.Err == nil {
		o.End = end.Offset
	}
	if o.Committed >= 0 && o.End >= 0 {
		o.Lag = max(0, o.End-o.Committed)
	}
	for _, m := range g.Members {
		if m.assigned.Lookup(topic, partition) {
			o.Member = m.Member
		}
	}
	return o
}

func (g *describedGroup) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "group %s, %s protocol, %s, assignor %s, %s\n", g.Group, g.Protocol, g.State,
		cmp.Or(g.Assignor, "none"), count(int64(len(g.Members)), "member"))
	if len(g.Members) > 0 {
		fmt.Fprintln(w, "member\tinstance\tclient\thost\tpartitions")
	}
	for _, m := range g.Members {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\n", m.Member, cmp.Or(m.Instance, "-"), m.Client, m.Host, m.Partitions)
	}
	if len(g.Offsets) > 0 {
		fmt.Fprintln(w, "topic\tpartition\tcommitted\tend offset\tlag\tmember")
	}
	for _, o := range g.Offsets {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", o.Topic, o.Partition, known(o.Committed), known(o.End), known(o.Lag), cmp.Or(o.Member, "-"))
	}
	return w.Flush()
}

// known shows a number that may be unknown.
func known(n int64) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
