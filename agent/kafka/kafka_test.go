package kafka

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/kafkaproto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errTest = errors.New("control plane is away")

// topicID makes a topic id that is easy to tell.
func topicID(n byte) []byte { return append(make([]byte, 15), n) }

// member makes an agent of a zone with two ports of the listener "main" and one of "other".
func member(session uint32, zone string) *api.Member {
	host := "agent-" + strconv.Itoa(int(session))
	return &api.Member{
		Session: session, Zone: zone,
		Endpoints: []*api.Endpoint{
			{Listener: "main", Host: host, Port: 9092},
			{Listener: "main", Host: host, Port: 9093},
			{Listener: "other", Host: host, Port: 9095},
		},
		NodeIds: []int32{int32(session) * 10, int32(session)*10 + 1, int32(session)*10 + 2},
	}
}

// catalogueOf makes a catalogue with agents 1 and 2 in zone a, 3 and 4 in zone b, and the topics "alpha" (id 1, 12
// partitions) and "beta" (id 2, 1 partition).
func catalogueOf(t *testing.T) *view.Catalogue {
	t.Helper()
	c := view.NewCatalogue()
	c.OnWelcome(&api.Welcome{ClusterId: "the-cluster"})
	c.OnCatalogue(&api.Catalogue{
		Index: 1, Full: true,
		Topics: []*api.Topic{
			{Id: topicID(1), Name: "alpha", Partitions: 12},
			{Id: topicID(2), Name: "beta", Partitions: 1},
		},
		Membership: &api.Membership{Version: 7, Members: []*api.Member{
			member(1, "a"), member(2, "a"), member(3, "b"), member(4, "b"),
		}},
	})
	return c
}

// proberFunc is a view.Prober that is a function.
type proberFunc func(ctx context.Context) (uint64, error)

func (f proberFunc) Fresh(ctx context.Context) (uint64, error) { return f(ctx) }

// forwarderFunc is a Forwarder that is a function.
type forwarderFunc func(ctx context.Context, f client.Forward) ([]byte, error)

func (f forwarderFunc) Forward(ctx context.Context, r client.Forward) ([]byte, error) {
	return f(ctx, r)
}

// call runs a request through an API as the edge would, and decodes the answer.
func call[R kmsg.Response](t *testing.T, api API, version int16, in kmsg.Request, clientID string) R {
	t.Helper()
	reply := start(t, api, version, in, clientID)()
	require.False(t, reply.Close, "connection closed: %v", reply.Err)
	out := in.ResponseKind()
	out.SetVersion(version)
	require.NoError(t, out.ReadFrom(whole(reply)))
	return out.(R)
}

// whole is a reply's bytes.
func whole(reply edge.Reply) []byte {
	return slices.Concat(append([][]byte{reply.Head}, reply.Tail...)...)
}

func start(t *testing.T, api API, version int16, in kmsg.Request, clientID string) func() edge.Reply {
	t.Helper()
	in.SetVersion(version)
	from := &edge.Client{ID: 5, Host: "10.0.0.1", Principal: "User:ANONYMOUS", Listener: "main", PortIndex: 1}
	from.SetSoftware(edge.Software{Name: "apache-kafka-java", Version: "4.1.0"})
	return api.Start(t.Context(), &edge.Request{
		Key: in.Key(), Version: version, ClientID: clientID, Body: in.AppendTo(nil), Arrived: time.Now(), Client: from,
	})
}

// closing is an API that is not under test.
type closing struct{ key int16 }

func (c closing) Key() int16 { return c.key }
func (closing) Start(context.Context, *edge.Request) func() edge.Reply {
	return Ready(edge.Reply{Close: true, Silent: true})
}

// with completes some APIs to all that a Handler needs.
func with(apis ...API) []API {
	have := map[int16]bool{kafkaproto.KeyApiVersions: true}
	for _, a := range apis {
		have[a.Key()] = true
	}
	for _, e := range kafkaproto.Table() {
		if e.By == kafkaproto.ByAgent && !have[e.Key] {
			apis = append(apis, closing{e.Key})
		}
	}
	return apis
}

func TestNew_WantsEveryAPIOnce(t *testing.T) {
	to := forwarderFunc(func(context.Context, client.Forward) ([]byte, error) { return nil, errTest })
	_, err := New(Config{APIs: with(), Forwarder: to})
	require.NoError(t, err)
	_, err = New(Config{APIs: with(closing{3}, closing{3}), Forwarder: to})
	require.ErrorContains(t, err, "Metadata is given twice")
	_, err = New(Config{APIs: with(closing{19}), Forwarder: to})
	require.ErrorContains(t, err, "not the agent's")
	_, err = New(Config{APIs: []API{closing{3}}, Forwarder: to})
	require.ErrorContains(t, err, "no API answers Produce")
	_, err = New(Config{APIs: with()})
	require.ErrorContains(t, err, "no forwarder for CreateTopics")
}

// TestHandler_FranzGo: a real client over a real listener finds its way by ApiVersions, Metadata and forwarded
// requests.
func TestHandler_FranzGo(t *testing.T) {
	catalogue := view.NewCatalogue()
	views := NewViews(zonesOf(t, "a"))
	to := forwarderFunc(func(_ context.Context, f client.Forward) ([]byte, error) {
		require.Equal(t, int16(kmsg.CreateTopics), f.Key)
		require.Equal(t, "me,zone=b", f.ClientID)
		require.Equal(t, "b", f.Zone)
		require.Equal(t, "User:ANONYMOUS", f.Principal)
		in := kmsg.NewPtrCreateTopicsRequest()
		if _, err := kafkaproto.DecodeBody(f.Version, f.Body, in); err != nil {
			return nil, err
		}
		out := kmsg.NewPtrCreateTopicsResponse()
		out.SetVersion(f.Version)
		topic := kmsg.NewCreateTopicsResponseTopic()
		topic.Topic, topic.NumPartitions = in.Topics[0].Topic, 3
		out.Topics = append(out.Topics, topic)
		return out.AppendTo(nil), nil
	})
	fresh := proberFunc(func(context.Context) (uint64, error) { return 2, nil })
	handler, err := New(Config{
		APIs: with(
			NewMetadata(MetadataConfig{Catalogue: catalogue, Views: views, Prober: fresh}),
			NewFindCoordinator(catalogue, views),
		),
		Forwarder: to, Zones: zonesOf(t, "a"),
	})
	require.NoError(t, err)
	server, err := edge.New(edge.Config{Handler: handler, Listeners: []edge.Listener{{Name: "main", Address: "127.0.0.1:0"}}})
	require.NoError(t, err)
	require.NoError(t, server.Listen(t.Context()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- server.Run(ctx) }()
	defer func() { cancel(); require.NoError(t, <-done) }()

	_, port, _ := cutHostPort(server.Addrs()[0].String())
	catalogue.OnWelcome(&api.Welcome{ClusterId: "the-cluster"})
	catalogue.OnCatalogue(&api.Catalogue{
		Index: 2, Full: true,
		Topics: []*api.Topic{{Id: topicID(1), Name: "alpha", Partitions: 3}},
		Membership: &api.Membership{Version: 1, Members: []*api.Member{{
			Session: 1, Zone: "b", Endpoints: []*api.Endpoint{{Listener: "main", Host: "127.0.0.1", Port: port}}, NodeIds: []int32{4},
		}}},
	})

	cl, err := kgo.NewClient(kgo.SeedBrokers(server.Addrs()[0].String()), kgo.ClientID("me,zone=b"))
	require.NoError(t, err)
	defer cl.Close()
	timeout, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()

	meta, err := kmsg.NewPtrMetadataRequest().RequestWith(timeout, cl)
	require.NoError(t, err)
	require.Equal(t, "the-cluster", *meta.ClusterID)
	require.Len(t, meta.Topics, 1)
	require.Len(t, meta.Topics[0].Partitions, 3)
	require.EqualValues(t, 4, meta.Topics[0].Partitions[2].Leader)

	create := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic = "new"
	create.Topics = append(create.Topics, topic)
	created, err := create.RequestWith(timeout, cl)
	require.NoError(t, err)
	require.Equal(t, "new", created.Topics[0].Topic)

	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorKeys = "g", []string{"g"}
	coordinator, err := find.RequestWith(timeout, cl)
	require.NoError(t, err)
	require.EqualValues(t, 4, coordinator.Coordinators[0].NodeID)
}

func cutHostPort(address string) (string, int32, error) {
	for i := len(address) - 1; i >= 0; i-- {
		if address[i] == ':' {
			port, err := strconv.Atoi(address[i+1:])
			return address[:i], int32(port), err
		}
	}
	return address, 0, nil
}
