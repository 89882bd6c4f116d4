package kafka

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/controlplane/api"
)

// mover sends to a produceRig, which is agent 1 in zone a, as a client of some software and id.
type mover struct {
	*produceRig
	software edge.Software
	clientID string
}

func newMover(t *testing.T) *mover {
	t.Helper()
	return &mover{produceRig: newProduceRig(t), software: edge.Software{Name: "librdkafka", Version: "2.15.0"}}
}

// agents tells the agent of the membership.
func (m *mover) agents(version uint64, members ...*api.Member) {
	m.catalogue.OnWelcome(&api.Welcome{ClusterId: "the-cluster", Session: 1})
	m.catalogue.OnCatalogue(&api.Catalogue{Index: 10 + version, Membership: &api.Membership{Version: version, Members: members}})
}

// leaders are those of the partitions of "alpha".
func (m *mover) leaders() []int32 {
	m.t.Helper()
	return m.leadersBy(NewViews(m.catalogue, zonesOf(m.t, "a")))
}

func (m *mover) leadersBy(views *Views) []int32 {
	m.t.Helper()
	leaders, _ := leadersOf(m.t, NewMetadata(MetadataConfig{Catalogue: m.catalogue, Views: views}), m.clientID)
	return leaders
}

// start starts a request.
func (m *mover) start(version int16, in *kmsg.ProduceRequest) (answer func() edge.Reply) {
	in.SetVersion(version)
	from := &edge.Client{Listener: "main"}
	from.SetSoftware(m.software)
	return m.Start(m.t.Context(), &edge.Request{
		Key: in.Key(), Version: version, ClientID: m.clientID, Body: in.AppendTo(nil), Arrived: time.Now(), Client: from,
	})
}

// ask sends a request and gives its answer.
func (m *mover) ask(version int16, in *kmsg.ProduceRequest) (all []kmsg.ProduceResponseTopicPartition) {
	m.t.Helper()
	out := kmsg.NewPtrProduceResponse()
	out.SetVersion(version)
	require.NoError(m.t, out.ReadFrom(m.start(version, in)().Head))
	for _, t := range out.Topics {
		all = append(all, t.Partitions...)
	}
	return all
}

// send sends a batch with the sequence to each partition of "alpha".
func (m *mover) send(version int16, sequence int32) []kmsg.ProduceResponseTopicPartition {
	m.t.Helper()
	return m.ask(version, produceOf(-1, idempotent(sequence)...))
}

// taken checks that every batch of such a request is taken.
func (m *mover) taken(version int16, sequence int32, why string) {
	m.t.Helper()
	for _, p := range m.send(version, sequence) {
		require.Zero(m.t, p.ErrorCode, "partition %d: %s", p.Partition, why)
	}
}

// idempotent is a batch for each partition of "alpha", all with this sequence, each of a producer of its own: what is refused
// is missing to no other.
func idempotent(sequence int32) (all []to) {
	for p := range int32(12) {
		all = append(all, to{1, p, from(int64(p), sequence, recordBatch("a"))})
	}
	return all
}

// TestMoves: a producer is told where partitions went that this agent has given away, for a while.
func TestMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t)
		m.agents(8, member(1, "a"), member(2, "a"))
		before := m.leaders()
		m.taken(13, 0, "any agent takes any partition")

		m.agents(9, member(1, "a"), member(2, "a"), member(5, "a"))
		after := m.leaders()
		moved := 0
		for _, p := range m.send(13, 1) {
			if gone := before[p.Partition]/10 == 1 && after[p.Partition]/10 != 1; !gone {
				require.Zero(t, p.ErrorCode, "partition %d: %d, %d", p.Partition, before[p.Partition], after[p.Partition])
				continue
			}
			moved++
			require.Equal(t, kerr.NotEnoughReplicas.Code, p.ErrorCode)
			require.Equal(t, after[p.Partition], p.CurrentLeader.LeaderID)
			require.EqualValues(t, 9, p.CurrentLeader.LeaderEpoch)
		}
		require.Positive(t, moved)
		require.Less(t, moved, 12)

		m.taken(9, 1, "it could not be told where")
		for p := range int32(12) {
			require.Zero(t, m.ask(13, produceOf(-1, to{1, p, recordBatch("a")}))[0].ErrorCode, "its records would change places")
		}
		require.Equal(t, edge.Reply{Silent: true}, m.start(13, produceOf(0, idempotent(1)...))(), "it would not be told")
		m.software = edge.Software{Name: "apache-kafka-java", Version: "4.3.1"}
		m.taken(13, 2, "it goes with its next Metadata")
		m.software = edge.Software{Name: "confluent-kafka-python", Version: "2.11.0-rdkafka-2.11.0"}
		require.Len(t, refused(m.send(13, 3)), moved)

		time.Sleep(sendOnFor + time.Millisecond)
		m.taken(13, 3, "any agent takes any partition")
		require.Empty(t, m.cfg.Views.mu.past)
		require.Empty(t, m.cfg.Views.mu.sentOn)
		require.InDelta(t, 2*moved, testutil.ToFloat64(m.cfg.Views.m.sentOn), 0)
	})
}

// refused gives the partitions that are to be sent elsewhere.
func refused(all []kmsg.ProduceResponseTopicPartition) (partitions []int32) {
	for _, p := range all {
		if p.ErrorCode == kerr.NotEnoughReplicas.Code {
			partitions = append(partitions, p.Partition)
		}
	}
	return partitions
}

// TestMoves_ComesAgain: who does not go where it was told is taken here.
func TestMoves_ComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t)
		m.agents(8, member(1, "a"))
		m.taken(13, 0, "")
		m.agents(9, member(1, "a"), member(2, "a"))
		gone := refused(m.send(13, 1))
		require.NotEmpty(t, gone)
		require.Equal(t, gone, refused(m.send(13, 2)), "it was under way")
		for sequence := int32(1); sequence < 3; sequence++ {
			m.taken(13, sequence, "it came again")
		}
		m.agents(10, member(1, "a"), member(2, "a"), member(3, "a"))
		require.NotEmpty(t, refused(m.send(13, 3)), "there is another place to be told of")
	})
}

// TestMoves_LostAnswer: a batch that was taken, and whose answer was lost, is sent on when it is repeated, and is the same batch
// wherever it goes from there.
func TestMoves_LostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t)
		m.agents(8, member(1, "a"))
		m.taken(13, 0, "its answer is lost")
		m.agents(9, member(2, "a"))
		require.Len(t, refused(m.send(13, 0)), 12)
		for _, p := range m.send(13, 0) {
			require.Zero(t, p.ErrorCode)
			require.Zero(t, p.BaseOffset, "it is there once")
		}
	})
}

// TestMoves_Drains: an agent that has left the membership sends all on.
func TestMoves_Drains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t)
		m.agents(8, member(1, "a"), member(2, "a"))
		before := m.leaders()
		m.taken(13, 0, "")
		m.agents(9, member(2, "a"))
		for _, p := range m.send(13, 1) {
			require.Equal(t, before[p.Partition]/10 == 1, p.ErrorCode == kerr.NotEnoughReplicas.Code)
		}
	})
}

func TestMoves_BackAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t)
		m.agents(8, member(1, "a"), member(2, "a"))
		m.taken(13, 0, "")
		m.agents(9, member(1, "a"), member(2, "a"), member(5, "a"))
		require.NotEmpty(t, refused(m.send(13, 1)))
		m.agents(10, member(1, "a"), member(2, "a"))
		m.taken(13, 1, "it is here again")
	})
}

// TestMoves_OneAfterTheOther: agents come faster than clients learn of them.
func TestMoves_OneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t)
		members := []*api.Member{member(1, "a")}
		m.agents(8, members...)
		m.taken(13, 0, "")
		for i := range uint64(2 * maxPast) {
			members = append(members, member(uint32(2+i), "a"))
			m.agents(9+i, members...)
			m.ask(13, produceOf(-1))
		}
		require.Len(t, m.cfg.Views.mu.past, maxPast)
		leaders, gone := m.leaders(), refused(m.send(13, 1))
		for p, leader := range leaders {
			if leader/10 != 1 {
				require.Contains(t, gone, int32(p))
			}
		}
	})
}

// TestMoves_OldKnowledge: a request that looked before the membership changed changes nothing of what is known.
func TestMoves_OldKnowledge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t)
		m.agents(8, member(1, "a"))
		m.taken(13, 0, "")
		views, old := m.cfg.Views, m.catalogue.Load()
		m.agents(9, member(1, "a"), member(2, "a"))
		from := &edge.Request{Client: &edge.Client{Listener: "main"}}
		from.Client.SetSoftware(m.software)
		require.NotNil(t, views.moves(m.catalogue.Load(), from))
		require.Nil(t, views.moves(old, from))
		m.leadersBy(views)
		kept := testutil.ToFloat64(views.m.kept)
		require.Positive(t, kept)
		require.Len(t, views.of(old, from).brokers, 2, "it shows what it looked at: one agent with two ports")
		require.InDelta(t, kept, testutil.ToFloat64(views.m.kept), 0)
		require.EqualValues(t, 9, views.mu.current.version)
		require.Len(t, views.mu.past, 1)
	})
}

// TestMoves_ForgottenByOthers: what is kept for those who are sent on goes with the produces of others too.
func TestMoves_ForgottenByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t)
		m.software = edge.Software{Name: "apache-kafka-java", Version: "4.3.1"}
		m.agents(8, member(1, "a"))
		m.taken(13, 0, "")
		require.Equal(t, m.catalogue.Load(), m.cfg.Views.calm.Load())
		m.agents(9, member(1, "a"), member(2, "a"))
		m.taken(13, 1, "it goes with its next Metadata")
		require.Len(t, m.cfg.Views.mu.past, 1)
		time.Sleep(sendOnFor + time.Millisecond)
		m.taken(13, 2, "")
		require.Empty(t, m.cfg.Views.mu.past)
		require.Equal(t, m.catalogue.Load(), m.cfg.Views.calm.Load())
	})
}

// TestMoves_ByZone: each client is sent to what its own zone shows.
func TestMoves_ByZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t)
		m.clientID = "zone=b"
		m.agents(8, member(1, "a"))
		m.taken(13, 0, "no agent is nearer")
		m.agents(9, member(1, "a"), member(3, "b"))
		for _, p := range m.send(13, 1) {
			require.Equal(t, kerr.NotEnoughReplicas.Code, p.ErrorCode)
			require.Contains(t, []int32{30, 31}, p.CurrentLeader.LeaderID)
		}
		m.clientID = "zone=a"
		m.taken(13, 1, "it is at home")
	})
}

// TestMoves_NotFromTheLast: the last agent of all takes what comes until it has gone.
func TestMoves_NotFromTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t)
		m.agents(8, member(1, "a"))
		m.taken(13, 0, "")
		m.agents(9)
		m.taken(13, 1, "no other agent is left")
	})
}
