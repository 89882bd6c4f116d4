package kafka

import (
	"context"
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

// leave makes the agent of newReaders, session 1 in zone a, drain. members are the membership from then on.
func (r *readers) leave(t *testing.T, members ...*api.Member) {
	t.Helper()
	catalogue := r.fetch.cfg.Catalogue
	left := func() bool {
		s := catalogue.Load()
		return r.fetch.cfg.Fetcher.Draining() && len(s.Members) > 0 && !s.IsMember()
	}
	r.fetch.cfg.Departure = NewDeparture(catalogue, NewViews(zonesOf(t, "a")), left)
	r.list.departure = r.fetch.cfg.Departure
	catalogue.OnWelcome(&api.Welcome{Session: 1})
	catalogue.OnCatalogue(&api.Catalogue{Index: 100, Membership: &api.Membership{Version: 9, Members: members}})
	r.fetch.cfg.Fetcher.Drain()
}

// knowing sets the leader epoch that the client knows.
func knowing(p kmsg.FetchRequestTopicPartition, epoch int32) kmsg.FetchRequestTopicPartition {
	p.CurrentLeaderEpoch = epoch
	return p
}

// TestFetch_DrainingRedirects sends each version twice by a connection of its own. Clients below version 16, or without an epoch, have to
// refresh their metadata: their connections are redirected once and served then.
func TestFetch_DrainingRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		r.produce(t, 0, 1, 2)
		r.produce(t, 1, 1)
		r.leave(t, plainMember(2, "a"))
		for version := int16(4); version <= 18; version++ {
			for _, epoch := range []int32{3, -1} {
				connection := uint64(version)*10 + uint64(epoch+1)
				fetch := func() *kmsg.FetchResponse {
					return ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, connection,
						fetchRequest(version, 5000, knowing(fetchPartition(0, 0), epoch), knowing(fetchPartition(1, 0), epoch)))
				}
				out := fetch()
				for _, p := range out.Topics[0].Partitions {
					require.Equal(t, kerr.NotLeaderForPartition.Code, p.ErrorCode, "version %d", version)
					require.Empty(t, p.RecordBatches)
					if version >= 16 {
						require.EqualValues(t, 20, p.CurrentLeader.LeaderID)
						require.Greater(t, p.CurrentLeader.LeaderEpoch, int32(3))
					} else {
						require.EqualValues(t, -1, p.CurrentLeader.LeaderID)
					}
				}
				if version >= 16 {
					require.Equal(t, []kmsg.FetchResponseBroker{{NodeID: 20, Host: "agent-a", Port: 9092, Rack: kmsg.StringPtr("a")}}, out.Brokers)
				} else {
					require.Empty(t, out.Brokers)
				}
				var records int // of any partition: a reply need not wait for the others
				for _, p := range fetch().Topics[0].Partitions {
					if version >= 16 && epoch >= 0 {
						require.Equal(t, kerr.NotLeaderForPartition.Code, p.ErrorCode)
						continue
					}
					require.Zero(t, p.ErrorCode, "version %d is redirected once", version)
					records += len(p.RecordBatches)
				}
				require.Equal(t, version < 16 || epoch < 0, records > 0, "version %d, epoch %d", version, epoch)
			}
		}
	})
}

// servedCases are memberships and epochs with which a draining agent has nothing to redirect to.
var servedCases = map[string]struct {
	members []*api.Member
	epoch   int32
}{
	"knows the newest epoch":             {[]*api.Member{plainMember(2, "a")}, 1 << 30},
	"there is no other agent":            {nil, 3},
	"there is no other agent, no epoch":  {nil, -1},
	"the owner could not be told":        {[]*api.Member{plainMember(1, "a"), plainMember(2, "a")}, 3},
	"the owner has forgotten the others": {[]*api.Member{plainMember(1, "a")}, -1},
}

func TestDeparture_ServesToTheEnd(t *testing.T) {
	for name, c := range servedCases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReaders(t)
				r.produce(t, 0, 1, 2)
				r.leave(t, c.members...)
				for _, version := range []int16{9, 17} {
					out := ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, 1, fetchRequest(version, 5000, knowing(fetchPartition(0, 0), c.epoch)))
					require.Zero(t, out.Topics[0].Partitions[0].ErrorCode)
					require.NotEmpty(t, out.Topics[0].Partitions[0].RecordBatches)
					require.Empty(t, out.Brokers)
				}
				require.Zero(t, listEnd(t, r, 1, 9, c.epoch).ErrorCode)
			})
		})
	}
}

// listEnd asks for the end of partition 0.
func listEnd(t *testing.T, r *readers, connection uint64, version int16, epoch int32) kmsg.ListOffsetsResponseTopicPartition {
	t.Helper()
	in := kmsg.NewPtrListOffsetsRequest()
	in.Version, in.ReplicaID = version, -1
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp, p.CurrentLeaderEpoch = -1, epoch
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic, topic.Partitions = "a", append(topic.Partitions, p)
	in.Topics = append(in.Topics, topic)
	return ask[*kmsg.ListOffsetsResponse](t, t.Context(), r.list, connection, in).Topics[0].Partitions[0]
}

// TestListOffsets_DrainingRedirects checks every version, with and without an epoch. The second request is served.
func TestListOffsets_DrainingRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		r.produce(t, 0, 1, 2)
		r.leave(t, plainMember(2, "a"))
		for version := int16(1); version <= 11; version++ {
			for _, epoch := range []int32{3, -1} {
				connection := uint64(version)*10 + uint64(epoch+1)
				require.Equal(t, kerr.NotLeaderForPartition.Code, listEnd(t, r, connection, version, epoch).ErrorCode, "version %d", version)
				again := listEnd(t, r, connection, version, epoch)
				require.Zero(t, again.ErrorCode)
				require.EqualValues(t, 2, again.Offset)
			}
		}
	})
}

// TestFetch_DrainingRedirectsSessions sends incremental fetches that name no partition: the epochs are the session's.
func TestFetch_DrainingRedirectsSessions(t *testing.T) {
	for _, version := range []int16{7, 12, 17} {
		synctest.Test(t, func(t *testing.T) {
			r := newReaders(t)
			in := fetchRequest(version, 0, knowing(fetchPartition(0, 0), 3))
			in.SessionEpoch = 0
			opened := ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, 1, in)
			require.NotZero(t, opened.SessionID)
			r.leave(t, plainMember(2, "a"))
			again := fetchRequest(version, 5000)
			again.SessionID, again.SessionEpoch = opened.SessionID, 1
			began := time.Now()
			out := ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, 1, again)
			require.Less(t, time.Since(began), time.Second)
			require.Len(t, out.Topics, 1)
			require.Equal(t, kerr.NotLeaderForPartition.Code, out.Topics[0].Partitions[0].ErrorCode)
			require.Equal(t, version >= 16, len(out.Brokers) == 1)
		})
	}
}

// TestDeparture_AwaitsMetadata: the drain waits for the Metadata requests of redirected connections.
func TestDeparture_AwaitsMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		r.produce(t, 0, 1)
		r.leave(t, plainMember(2, "a"))
		d := r.fetch.cfg.Departure
		require.NoError(t, d.AwaitRefresh(t.Context()), "no connection was redirected")
		for connection := range uint64(2) {
			ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, connection, fetchRequest(11, 5000, fetchPartition(0, 0)))
		}
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		require.ErrorIs(t, d.AwaitRefresh(short), context.DeadlineExceeded)
		d.refreshed(0)
		settled := make(chan error)
		go func() { settled <- d.AwaitRefresh(t.Context()) }()
		synctest.Wait()
		require.Empty(t, settled)
		metadata := NewMetadata(MetadataConfig{
			Catalogue: r.fetch.cfg.Catalogue, Views: d.views, Prober: r.fetch.cfg.Source, Departure: d,
		})
		ask[*kmsg.MetadataResponse](t, t.Context(), metadata, 1, kmsg.NewPtrMetadataRequest())
		require.NoError(t, <-settled)
	})
}
