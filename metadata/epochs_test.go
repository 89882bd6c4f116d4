package metadata

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/assign"
	"github.com/freshet-io/freshet/internal/nightly"
	"github.com/freshet-io/freshet/metadata/id"
)

// nobody is where a partition is that no agent has.
const nobody = -1

var (
	epochZones     = []string{"", "a", "b", "c", "nowhere"} // no agent is ever in the last
	epochListeners = []string{"main", "other"}
)

// shownTo gives the nodes that each partition of a topic has for the clients of each zone and listener, worked out of
// what is public of the state, as agents do: view by view, partition by partition.
func shownTo(s *machine, t *Topic) (nodes [][]int32) {
	for _, listener := range epochListeners {
		for _, zone := range epochZones {
			nodes = append(nodes, placed(s, t, zone, listener))
		}
	}
	return nodes
}

func placed(s *machine, t *Topic, zone, listener string) []int32 {
	var agents, everywhere []assign.Agent
	ports := map[uint32][]int32{}
	for info := range s.Sessions() {
		n := uint32(info.ID)
		for i, e := range info.Endpoints {
			if info.Shown() && e.Listener == listener {
				ports[n] = append(ports[n], info.NodeIDs[i])
			}
		}
		if a := (assign.Agent{ID: n, Ports: int32(len(ports[n]))}); a.Ports > 0 {
			everywhere = append(everywhere, a)
			if info.Zone == zone {
				agents = append(agents, a)
			}
		}
	}
	if len(agents) == 0 {
		agents = everywhere
	}
	nodes := slices.Repeat([]int32{nobody}, int(t.Partitions))
	for p, at := range assign.Places(t.ID, t.Partitions, agents) {
		nodes[p] = ports[agents[at.Index].ID][at.Port]
	}
	return nodes
}

// epochHistory is a random history of a cluster, told entry by entry.
type epochHistory struct {
	t       *testing.T
	rng     *rand.Rand
	s       *machine
	other   *machine // restored from a snapshot now and then, and goes on from there
	opened  int
	created int
	deleted []id.Topic

	movedOnce, stayed, emptied, grownMoves int // what has come to pass, so that the test shows something
}

// command gives a command that could come, or nil.
func (h *epochHistory) command() Command {
	var open []id.Session
	for info := range h.s.Sessions() {
		if !info.Closed {
			open = append(open, info.ID)
		}
	}
	topics := slices.Collect(h.s.Topics())
	switch k := h.rng.IntN(16); {
	case k < 5:
		return h.open()
	case k < 7 && len(open) > 0:
		return &DrainSession{Session: open[h.rng.IntN(len(open))]}
	case k < 10 && len(open) > 0:
		return &CloseSession{Session: open[h.rng.IntN(len(open))]}
	case k == 15 && len(open) > 0:
		return &HideSession{Session: open[h.rng.IntN(len(open))], Hidden: h.rng.IntN(2) == 0}
	case k == 10 && len(topics) < 6:
		h.created++
		return &CreateTopic{ID: topicID(fmt.Sprint(h.created)), Name: fmt.Sprint("t", h.rng.IntN(4), h.created%3), Partitions: 1 + h.rng.Int32N(30)}
	case k == 11 && len(topics) > 0:
		t := topics[h.rng.IntN(len(topics))]
		return &CreatePartitions{ID: t.ID, Count: t.Partitions + 1 + h.rng.Int32N(8)}
	case k == 12 && len(topics) > 2:
		t := topics[h.rng.IntN(len(topics))]
		h.deleted = append(h.deleted, t.ID)
		return &DeleteTopic{ID: t.ID, KeepMs: 1 << 40}
	case k == 13 && len(h.deleted) > 0:
		return &UndeleteTopic{ID: h.deleted[h.rng.IntN(len(h.deleted))]}
	case k == 14 && len(topics) > 0:
		return &SetConfigs{Resource: ConfigTopic, Topic: topics[0].ID, Set: map[string]string{"k": fmt.Sprint(h.rng.IntN(9))}}
	}
	return &Tick{}
}

func (h *epochHistory) open() Command {
	h.opened++
	c := &OpenSession{Instance: fmt.Sprint("i", h.opened), Zone: epochZones[h.rng.IntN(4)], Roles: RoleProduce}
	if h.rng.IntN(8) == 0 {
		c.Roles = RoleJobs // not shown
	}
	for _, listener := range epochListeners {
		for range h.rng.IntN(3) {
			c.Endpoints = append(c.Endpoints, Endpoint{Listener: listener, Host: "h", Port: 1})
		}
	}
	return c
}

// topicThen is a topic as it was before an entry.
type topicThen struct {
	topic *Topic
	nodes [][]int32
}

func (h *epochHistory) then() map[id.Topic]topicThen {
	all := map[id.Topic]topicThen{}
	for t := range h.s.Topics() {
		all[t.ID] = topicThen{t, shownTo(h.s, t)}
	}
	return all
}

// entry applies one entry and compares every epoch with what the views say.
func (h *epochHistory) entry(commands ...Command) {
	before, version := h.then(), h.s.MembershipVersion()
	b := &Batch{Now: int64(h.s.index), Commands: commands}
	h.s.Apply(h.s.index+1, b, nil, nil)
	if h.rng.IntN(4) == 0 {
		h.other = restore(h.t, h.other)
	}
	h.other.Apply(h.other.index+1, b, nil, nil)
	require.Equal(h.t, h.s.Hash(), h.other.Hash(), "restored")
	require.GreaterOrEqual(h.t, h.s.MembershipVersion(), version)
	newest := int32(h.s.MembershipVersion())
	for t := range h.s.Topics() {
		then, was := before[t.ID]
		require.Equal(h.t, t.Partitions, t.LeaderEpochs.Partitions())
		nodes := shownTo(h.s, t)
		for p := range t.Partitions {
			epoch := t.LeaderEpochs.At(p)
			if !was || p >= then.topic.Partitions {
				if epoch != newest && (len(commands) == 1 || epoch < int32(version) || epoch > newest) {
					require.Equal(h.t, newest, epoch, "new partition at %+v", commands)
				}
				continue
			}
			moved := false
			for view := range nodes {
				moved = moved || nodes[view][p] != then.nodes[view][p]
			}
			old := then.topic.LeaderEpochs.At(p)
			h.judge(commands, moved, old, epoch, newest)
		}
		if was && t.Partitions > then.topic.Partitions && newest > int32(version) {
			h.grownMoves++
		}
	}
	if len(placed(h.s, &Topic{Partitions: 1}, "", "main")) == 1 && placed(h.s, &Topic{Partitions: 1}, "", "main")[0] == nobody {
		h.emptied++
	}
}

func (h *epochHistory) judge(commands []Command, moved bool, old, epoch, newest int32) {
	switch {
	case epoch > newest, epoch < old:
		require.Fail(h.t, "epoch falls, or is of the future", "%d, %d before, at %+v", epoch, old, commands)
	case moved:
		h.movedOnce++
		if epoch == old {
			require.Fail(h.t, "moved, and the epoch stays", "%d at %+v", epoch, commands)
		}
	case len(commands) == 1: // by several commands it may have moved and come back
		h.stayed++
		if epoch != old {
			require.Fail(h.t, "epoch without a move", "%d, %d before, at %+v", epoch, old, commands)
		}
	}
}

// TestEpochs_AgainstViews: over random histories, an epoch rises exactly where clients of some zone and listener are shown
// another node for the partition, to the newest membership version, and never falls; and a state restored from a
// snapshot has the same.
func TestEpochs_AgainstViews(t *testing.T) {
	var moved, stayed, emptied, grown int
	seeds := uint64(2)
	if nightly.On() {
		seeds = 6
	}
	for seed := range seeds {
		h := &epochHistory{t: t, rng: rand.New(rand.NewPCG(seed, 3)), s: newMachine(), other: newMachine()}
		for range 150 {
			commands := []Command{h.command()}
			for h.rng.IntN(4) == 0 {
				commands = append(commands, h.command())
			}
			h.entry(commands...)
		}
		moved, stayed, emptied, grown = moved+h.movedOnce, stayed+h.stayed, emptied+h.emptied, grown+h.grownMoves
	}
	t.Logf("moved %d, stayed %d, without agents %d, moved by further partitions %d", moved, stayed, emptied, grown)
	require.Greater(t, moved, 1000)
	require.Greater(t, stayed, 1000)
	require.Greater(t, emptied, 10)
	require.Greater(t, grown, 10)
}

// epochState is a state of topics with partitions and of agents with four ports in one zone.
func epochState(topics int, partitions int32, agents int) *machine {
	s := newMachine()
	var cmds []Command
	for i := range topics {
		cmds = append(cmds, &CreateTopic{ID: topicID(fmt.Sprint(i)), Name: fmt.Sprint(i), Partitions: partitions})
	}
	for i := range agents {
		cmds = append(cmds, openInZone(i))
	}
	s.Apply(1, &Batch{Commands: cmds}, nil, nil)
	return s
}

func openInZone(i int) *OpenSession {
	return &OpenSession{Instance: fmt.Sprint(i), Zone: "a", Endpoints: slices.Repeat([]Endpoint{{Host: "h", Port: 9092}}, 4)}
}

// TestEpochs_SixToSeven: an agent that joins six raises the epochs of at most 1/7 + 10 % of the partitions, and so does one
// that leaves seven.
func TestEpochs_SixToSeven(t *testing.T) {
	for _, shape := range []struct {
		topics     int
		partitions int32
	}{{5000, 1}, {1000, 6}, {500, 12}, {100, 50}, {20, 288}, {5, 1000}} {
		s := epochState(shape.topics, shape.partitions, 6)
		raised := func(c Command) float64 {
			s.Apply(s.index+1, &Batch{Commands: []Command{c}}, nil, nil)
			n, all := 0, 0
			for topic := range s.Topics() {
				for partitions, epoch := range topic.LeaderEpochs.Runs() {
					all += int(partitions)
					if epoch == int32(s.MembershipVersion()) {
						n += int(partitions)
					}
				}
			}
			return float64(n) / float64(all)
		}
		joined, left := raised(openInZone(6)), raised(&DrainSession{Session: 7})
		t.Logf("%d topics of %d partitions: %.1f %% at joining, %.1f %% at leaving", shape.topics, shape.partitions, 100*joined, 100*left)
		require.Less(t, joined, 1./7+0.1)
		require.Less(t, left, 1./7+0.1)
	}
}

// BenchmarkEpochs is the Apply of an agent that joins or leaves, by the agents of its zone and the shape of 100,000
// partitions: with seven it is to take less than 50 ms of the thread's CPU time.
func BenchmarkEpochs(b *testing.B) {
	for _, shape := range []struct{ topics, partitions, agents int }{{100, 1000, 7}, {2000, 50, 7}, {100_000, 1, 7}, {2000, 50, 50}} {
		b.Run(fmt.Sprintf("topics=%d/partitions=%d/agents=%d", shape.topics, shape.partitions, shape.agents), func(b *testing.B) {
			s := epochState(shape.topics, int32(shape.partitions), shape.agents-1)
			newest := shape.agents
			joins := true
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			begun := threadCPU()
			for b.Loop() {
				var c Command = openInZone(newest)
				if !joins {
					c = &CloseSession{Session: s.nextSession - 1}
				}
				s.Apply(s.index+1, &Batch{Commands: []Command{c}}, nil, nil)
				newest, joins = newest+1, !joins
			}
			b.ReportMetric(float64((threadCPU()-begun).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}
