package kafka

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
)

// sendFrom sends one batch to each partition of topic alpha, and returns the answer.
func (r *produceRig) sendFrom(clientID string, connection uint64, arrived time.Time, partitions ...int32) *kmsg.ProduceResponse {
	r.t.Helper()
	in := kmsg.NewPtrProduceRequest()
	in.Version, in.Acks, in.TimeoutMillis = 12, -1, 30_000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "alpha"
	for _, n := range partitions {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = n, recordBatch("k")
		topic.Partitions = append(topic.Partitions, p)
	}
	in.Topics = append(in.Topics, topic)
	reply := r.Start(r.t.Context(), &edge.Request{
		Key: 0, Version: 12, Body: in.AppendTo(nil), Arrived: arrived, ClientID: clientID, Client: &edge.Client{ID: connection, Listener: "main"},
	})()
	out := kmsg.NewPtrProduceResponse()
	out.Version = 12
	require.NoError(r.t, out.ReadFrom(reply.Head))
	return out
}

// partitionCodes returns the errors of the partitions of an answer.
func partitionCodes(out *kmsg.ProduceResponse) (all []int16) {
	for _, p := range out.Topics[0].Partitions {
		all = append(all, p.ErrorCode)
	}
	return all
}

// TestProduce_RefusesStrays: a producer abroad is sent to its zone's agents, for each connection and partition. If it comes here again, its
// batches are stored.
func TestProduce_RefusesStrays(t *testing.T) {
	r := newProduceRig(t)
	now, stray, refused := time.Now(), "writer,zone=b", kerr.NotLeaderForPartition.Code
	r.catalogue.OnCatalogue(&api.Catalogue{Index: 3, Membership: membersIn(8, "a")})
	require.Equal(t, []int16{0}, partitionCodes(r.sendFrom(stray, 1, now, 0)), "its zone has no agents")

	r.catalogue.OnCatalogue(&api.Catalogue{Index: 4, Membership: membersIn(9, "a", "b")})
	out := r.sendFrom(stray, 1, now, 0, 1)
	require.Equal(t, []int16{refused, refused}, partitionCodes(out))
	require.Len(t, out.Brokers, 2, "a node each")
	for _, b := range out.Brokers {
		require.Equal(t, "agent-91", b.Host, "of zone b")
	}
	require.Equal(t, out.Brokers[0].NodeID, out.Topics[0].Partitions[0].CurrentLeader.LeaderID)
	require.Equal(t, []int16{refused}, partitionCodes(r.sendFrom(stray, 1, now.Add(strayWindow-1), 0)), "it was in flight")
	require.Equal(t, []int16{0, refused}, partitionCodes(r.sendFrom(stray, 1, now.Add(strayWindow), 0, 2)), "partition 0 came again")
	require.Equal(t, []int16{refused}, partitionCodes(r.sendFrom(stray, 2, now.Add(strayWindow), 0)), "another connection")
	for _, home := range []string{"writer,zone=a", "writer", "writer,zone=c"} {
		require.Equal(t, []int16{0}, partitionCodes(r.sendFrom(home, 3, now, 0)), home)
	}
	r.catalogue.OnCatalogue(&api.Catalogue{Index: 5, Membership: membersIn(10, "a")})
	require.Equal(t, []int16{0}, partitionCodes(r.sendFrom(stray, 4, now, 0)), "its zone has lost its agents")
}

// askFrom is ask of a client.
func askFrom[T kmsg.Response](t *testing.T, api API, clientID string, in kmsg.Request) T {
	t.Helper()
	passTime(time.Millisecond)
	reply := api.Start(t.Context(), &edge.Request{
		Key: in.Key(), Version: in.GetVersion(), Body: in.AppendTo(nil), Arrived: time.Now(), ClientID: clientID,
		Client: &edge.Client{ID: 7, Principal: "User:ANONYMOUS", Listener: "main"},
	})()
	out := in.ResponseKind()
	body := reply.Head
	for _, b := range reply.Tail {
		body = append(body, b...)
	}
	require.NoError(t, out.ReadFrom(body))
	return out.(T)
}

// TestFetch_RedirectsStrays: a consumer abroad is redirected once, and served then.
func TestFetch_RedirectsStrays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		r.produce(t, 0, 1, 2)
		catalogue := r.fetch.cfg.Catalogue
		r.fetch.cfg.Departure = NewDeparture(catalogue, NewViews(zonesOf(t, "a")), func() bool { return false })
		catalogue.OnWelcome(&api.Welcome{Session: 1})
		catalogue.OnCatalogue(&api.Catalogue{Index: 100, Membership: membersIn(9, "a", "b")})
		code := func(clientID string) int16 {
			in := fetchRequest(12, 100, fetchPartition(0, 0))
			return askFrom[*kmsg.FetchResponse](t, r.fetch, clientID, in).Topics[0].Partitions[0].ErrorCode
		}
		require.Zero(t, code("reader,zone=a"))
		require.Zero(t, code("reader"))
		require.Equal(t, kerr.NotLeaderForPartition.Code, code("reader,zone=b"))
		require.Zero(t, code("reader,zone=b"))
		require.NoError(t, r.fetch.cfg.Departure.AwaitRefresh(t.Context()), "no drain waits for this client")
	})
}

// TestProduce_StoresStraysWithoutAcks: a refused batch without an answer would be lost.
func TestProduce_StoresStraysWithoutAcks(t *testing.T) {
	r := newProduceRig(t)
	r.catalogue.OnCatalogue(&api.Catalogue{Index: 3, Membership: membersIn(8, "a", "b")})
	in := produceOf(0, to{1, 0, recordBatch("k")})
	in.SetVersion(12)
	reply := r.Start(t.Context(), &edge.Request{
		Key: 0, Version: 12, Body: in.AppendTo(nil), Arrived: time.Now(), ClientID: "writer,zone=b", Client: &edge.Client{ID: 1, Listener: "main"},
	})()
	require.True(t, reply.Silent)
	require.False(t, reply.Close)
}

// TestFetch_DrainRedirectsAfterManyStrays: strays are remembered apart from the connections that a drain redirects.
func TestFetch_DrainRedirectsAfterManyStrays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		r.produce(t, 0, 1, 2)
		catalogue, left := r.fetch.cfg.Catalogue, false
		d := NewDeparture(catalogue, NewViews(zonesOf(t, "a")), func() bool { return left })
		r.fetch.cfg.Departure = d
		catalogue.OnWelcome(&api.Welcome{Session: 1})
		catalogue.OnCatalogue(&api.Catalogue{Index: 100, Membership: membersIn(9, "a", "b")})
		topic, _ := catalogue.Load().TopicByName("a")
		for connection := range uint64(maxRedirects) {
			of := d.of(t.Context(), &edge.Request{Key: 1, ClientID: "x,zone=b", Client: &edge.Client{ID: 1000 + connection, Listener: "main"}})
			_, redirected := of.leader(id.TopicPartition{Topic: topic.ID}, -1, false)
			require.True(t, redirected)
		}
		catalogue.OnCatalogue(&api.Catalogue{Index: 101, Membership: membersIn(10, "a", "b")})
		left = true
		out := askFrom[*kmsg.FetchResponse](t, r.fetch, "reader,zone=a", fetchRequest(11, 100, fetchPartition(0, 0)))
		require.Equal(t, kerr.NotLeaderForPartition.Code, out.Topics[0].Partitions[0].ErrorCode)
	})
}

// TestDeparture_ForgetsClosedConnections: a drain does not wait for a redirected client that has closed its connection.
func TestDeparture_ForgetsClosedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		r.produce(t, 0, 1)
		r.leave(t, plainMember(2, "a"))
		connection, closed := context.WithCancel(t.Context())
		ask[*kmsg.FetchResponse](t, connection, r.fetch, 1, fetchRequest(11, 5000, fetchPartition(0, 0)))
		closed()
		synctest.Wait()
		short, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		require.NoError(t, r.fetch.cfg.Departure.AwaitRefresh(short))
	})
}
