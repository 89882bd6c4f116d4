package elastic

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
	"github.com/freshet-io/freshet/test/stock"
)

// membersPerGroup read a group's partitions, each in another zone.
const membersPerGroup = 2

// sessionMs is the session time-out of members of classic groups. A client that a busy machine holds up must not cause a
// rebalance; the default is 45 s.
const sessionMs = 60_000

// group is a consumer group of one family, or one reader without a group.
type group struct {
	name    string
	family  stock.Client
	kind    string // of protocol: classic, consumer; "" without a group
	rack    bool
	zone    string // of all members, by their client id; "": unknown, or by rack
	tells   bool   // its clients tell their generation
	fleet   *fleet
	members []string
	settled state
	// rebalances counts what happened to the group; newZones, the zones that have got their first agent ever, and zonesChanged,
	// those that have got one or lost their last, what may have been the reason.
	rebalances, newZones, zonesChanged int
	// again: a member took its partitions for lost, joined again and read on from what had been committed. See givesUp.
	again bool
}

// rackRebalances is how often a group that follows racks may rebalance for each zone that has its first agent ever: its
// leader sees the racks change, and, if the group has another leader then, that one sees those of another zone's view.
const rackRebalances = 2

// followsRacks tells whether the group's clients rebalance by themselves when a partition's racks change, as classic ones
// with a rack do: the racks are the zones that have, or had, agents.
func (g *group) followsRacks() bool { return g.kind == "classic" && g.rack }

// givesUp tells whether a group's members may take their partitions for lost: those of franz-go's classic protocol if all
// agents of a zone have gone, which are all that they know. They try one of their seeds for every round of those.
func (g *group) givesUp() bool {
	_, franzGo := g.family.(*franz)
	return franzGo && g.kind == "classic" && g.zonesChanged > 0
}

// state is what changes when a group rebalances.
type state struct {
	epoch       int32 // of a group of the consumer protocol
	changes     int
	losses      int
	generations [membersPerGroup]int
}

// readers starts the groups of every family and protocol, with and without racks, and readers without a group, and waits
// until each has settled.
func (s *scene) readers() {
	s.t.Helper()
	for _, name := range s.names() {
		s.groups = append(s.groups, &group{name: name + " without a group", family: s.families[name], members: []string{name}})
		for _, protocol := range []string{"classic", "consumer"} {
			for _, rack := range []bool{false, true} {
				if protocol == "consumer" && !rack && s.short {
					continue
				}
				g := &group{name: fmt.Sprintf("%s-%s-rack-%t", name, protocol, rack), family: s.families[name], kind: protocol, rack: rack, tells: name != "librdkafka", fleet: s.fleet}
				s.commitStart(g.name)
				s.groups = append(s.groups, g)
			}
		}
		for _, g := range s.groups {
			if g.family == s.families[name] {
				s.join(name, g)
			}
		}
	}
	for _, g := range s.groups {
		g.settle(s.t)
	}
}

// join starts a group's members.
func (s *scene) join(family string, g *group) {
	s.t.Helper()
	config := s.config(family, map[string]string{"group.id": g.name, "client.id": "reader", "auto.offset.reset": "none"})
	if family == "librdkafka" {
		config["auto.offset.reset"] = "error"
	}
	if g.zone != "" {
		config["client.id"] = "reader,zone=" + g.zone
	}
	if g.kind == "" {
		g.family.Join(s.t, stock.Job{Name: g.members[0], Topic: topic, Partitions: partitions, Config: config})
		return
	}
	config["group.protocol"] = g.kind
	if g.kind == "classic" { // of the consumer protocol it is the broker's setting
		config["session.timeout.ms"] = fmt.Sprint(sessionMs)
	}
	for i := range membersPerGroup {
		own := s.config(family, config)
		if g.rack {
			own["client.rack"], own["client.id"] = zones[i], "reader,zone="+zones[i]
		}
		member := fmt.Sprintf("%s-%d", g.name, i)
		g.members = append(g.members, member)
		g.family.Join(s.t, stock.Job{Name: member, Topic: topic, Config: own})
	}
}

// settle waits until a group's members share its partitions, and notes how it is then.
func (g *group) settle(t testing.TB) {
	t.Helper()
	if g.kind == "" {
		return
	}
	harness.Await(t, g.name+" has settled", func() bool {
		assigned := 0
		for _, m := range g.members {
			r := g.family.Look(t, m)
			require.Empty(t, r.Faults, m)
			if r.Assigned == 0 || g.tells && r.Generation < 1 {
				return false
			}
			assigned += r.Assigned
		}
		before := g.settled
		g.settled = g.now(t)
		return assigned == partitions && before == g.settled
	})
}

// now gives the group's state.
func (g *group) now(t testing.TB) (s state) {
	t.Helper()
	for i, m := range g.members {
		r := g.family.Look(t, m)
		s.changes += r.Changes
		s.losses += r.Losses
		s.generations[i] = r.Generation
	}
	if g.kind == "consumer" {
		var err error
		s.epoch, err = groupEpoch(t.Context(), g.name, g.fleet.running())
		require.NoError(t, err, g.name)
	}
	return s
}

// groupEpoch asks for the epoch of a group of the consumer protocol, by a client that knows nothing yet.
func groupEpoch(ctx context.Context, name string, seeds []string) (int32, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.ClientID(admin))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, finishing)
	defer cancel()
	described, err := kadm.NewClient(client).DescribeConsumerGroups(ctx, name)
	if err != nil {
		return 0, err
	}
	return described[name].Epoch, described[name].Err
}

// quiet checks that nothing has happened to the group.
func (g *group) quiet(t testing.TB, phase string, k kind) {
	t.Helper()
	for _, m := range g.members {
		require.Empty(t, g.family.Look(t, m).Faults, "%s, %s", m, phase)
	}
	if g.kind == "" {
		return
	}
	before, now := g.settled, g.now(t)
	if now == before {
		return
	}
	if g.followsRacks() {
		g.settle(t) // a rebalance under way counts once
		now = g.settled
	}
	t.Logf("%s: group %s rebalanced: %+v before, %+v now", phase, g.name, before, now)
	g.settled = now
	// A client that reaches nobody starts anew from its seeds, and may take its topics for changed (Java's does; KIP-899).
	if k == away || now.losses > before.losses && g.givesUp() {
		g.again = true
		g.settle(t)
		return
	}
	g.rebalances += before.since(now)
	if !g.followsRacks() || g.rebalances > rackRebalances*g.newZones {
		t.Errorf("group %s has rebalanced %d times; %d zones were new", g.name, g.rebalances, g.newZones)
	}
}

// since estimates how often a group rebalanced between two states. Not every client tells.
func (s state) since(now state) int {
	return max(now.generations[0]-s.generations[0], (now.changes-s.changes)/(2*membersPerGroup), 1)
}

// finish waits until the group has read everything, once and in order, and ends it.
func (g *group) finish(t testing.TB, all *stock.Sent) {
	t.Helper()
	var faults []string
	defer func() {
		if len(faults) > 0 {
			t.Logf("%s: %q", g.name, faults)
		}
	}()
	harness.Await(t, g.name+" has read everything, once and in order", func() bool {
		var runs []stock.Run
		changes := 0
		for _, m := range g.members {
			r := g.family.Look(t, m)
			require.Empty(t, r.Faults, m)
			runs = append(runs, r.Runs...)
			changes += r.Changes
		}
		if g.kind != "" && changes != g.settled.changes { // a member has noticed only now that no agent was left
			g.again = true
		}
		faults = all.Faults(runs, g.again)
		return len(faults) == 0
	})
	for _, m := range g.members {
		require.Empty(t, g.family.Leave(t, m).Faults, m)
	}
}
