package kafka

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/api"
)

// plainMember is an agent with one port of the default listener.
func plainMember(session uint32, zone string) *api.Member {
	return &api.Member{
		Session: session, Zone: zone, NodeIds: []int32{int32(session) * 10},
		Endpoints: []*api.Endpoint{{Host: "agent-" + zone, Port: 9092}},
	}
}

// leave has the agent of newReaders, session 1 in zone a, leave the membership, which these are then.
func (r *readers) leave(t *testing.T, members ...*api.Member) {
	t.Helper()
	catalogue := r.fetch.cfg.Catalogue
	r.fetch.cfg.Views = NewViews(zonesOf(t, "a"))
	catalogue.OnWelcome(&api.Welcome{Session: 1})
	catalogue.OnCatalogue(&api.Catalogue{Index: 100, Membership: &api.Membership{Version: 9, Members: members}})
	r.fetch.cfg.Fetcher.Drain()
}

// knowing is a partition of a client that knows this epoch.
func knowing(p kmsg.FetchRequestTopicPartition, epoch int32) kmsg.FetchRequestTopicPartition {
	p.CurrentLeaderEpoch = epoch
	return p
}

func TestFetch_DrainingRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		r.produce(t, 0, 1, 2)
		r.leave(t, plainMember(2, "a"))
		for version := int16(12); version <= 18; version++ {
			out := ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, 1,
				fetchRequest(version, 5000, knowing(fetchPartition(0, 0), 3), knowing(fetchPartition(1, 0), 3)))
			got := out.Topics[0].Partitions
			if version < 16 {
				require.Zero(t, got[0].ErrorCode, "who cannot be told is served")
				require.NotEmpty(t, got[0].RecordBatches)
				continue
			}
			for _, p := range got {
				require.Equal(t, kerr.NotLeaderForPartition.Code, p.ErrorCode)
				require.EqualValues(t, 20, p.CurrentLeader.LeaderID)
				require.Greater(t, p.CurrentLeader.LeaderEpoch, int32(3))
			}
			require.Equal(t, []kmsg.FetchResponseBroker{{NodeID: 20, Host: "agent-a", Port: 9092, Rack: kmsg.StringPtr("a")}}, out.Brokers)
		}
	})
}

func TestFetch_DrainingServesWhoWouldNotGo(t *testing.T) {
	cases := map[string]struct {
		members []*api.Member
		epoch   int32
	}{
		"knows the newest epoch":             {[]*api.Member{plainMember(2, "a")}, 1 << 30},
		"knows no epoch":                     {[]*api.Member{plainMember(2, "a")}, -1},
		"there is no other agent":            {nil, 3},
		"the owner could not be told":        {[]*api.Member{plainMember(1, "a"), plainMember(2, "a")}, 3},
		"the owner has forgotten the others": {[]*api.Member{plainMember(1, "a")}, 3},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReaders(t)
				r.produce(t, 0, 1, 2)
				r.leave(t, c.members...)
				out := ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, 1, fetchRequest(17, 5000, knowing(fetchPartition(0, 0), c.epoch)))
				require.Zero(t, out.Topics[0].Partitions[0].ErrorCode)
				require.NotEmpty(t, out.Topics[0].Partitions[0].RecordBatches)
				require.Empty(t, out.Brokers)
			})
		})
	}
}

// TestFetch_DrainingRedirectsSessions: an incremental fetch names no partitions, so the epochs are the session's.
func TestFetch_DrainingRedirectsSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		in := fetchRequest(17, 0, knowing(fetchPartition(0, 0), 3))
		in.SessionEpoch = 0
		opened := ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, 1, in)
		require.NotZero(t, opened.SessionID)
		r.leave(t, plainMember(2, "a"))
		again := fetchRequest(17, 5000)
		again.SessionID, again.SessionEpoch = opened.SessionID, 1
		began := time.Now()
		out := ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, 1, again)
		require.Less(t, time.Since(began), time.Second)
		require.Len(t, out.Topics, 1)
		require.Equal(t, kerr.NotLeaderForPartition.Code, out.Topics[0].Partitions[0].ErrorCode)
		require.Len(t, out.Brokers, 1)
	})
}
