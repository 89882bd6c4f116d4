package kafka

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/kafkaproto"
)

func apiVersionsRequest() *kmsg.ApiVersionsRequest {
	in := kmsg.NewPtrApiVersionsRequest()
	in.ClientSoftwareName, in.ClientSoftwareVersion = "apache-kafka-java", kafkaproto.KafkaVersion
	return in
}

func TestApiVersions_ListsWhatIsServed(t *testing.T) {
	subscribed := catalogueOf(t)
	subscribed.OnCatalogue(&api.Catalogue{Index: 2, ClientMetricsSet: true, ClientMetrics: []*api.ClientMetrics{{Name: "s"}}})
	for version := int16(0); version <= 5; version++ {
		out := call[*kmsg.ApiVersionsResponse](t, apiVersions{catalogue: subscribed}, version, apiVersionsRequest(), "")
		require.Zero(t, out.ErrorCode)
		listed := map[int16]kafkaproto.Versions{}
		for _, k := range out.ApiKeys {
			listed[k.ApiKey] = kafkaproto.Versions{Min: k.MinVersion, Max: k.MaxVersion}
		}
		require.Equal(t, kafkaproto.Versions{Min: 0, Max: 13}, listed[kafkaproto.KeyProduce], "KAFKA-18659")
		require.Equal(t, kafkaproto.Versions{Min: 4, Max: 18}, listed[kmsg.Fetch.Int16()])
		require.NotContains(t, listed, int16(kmsg.ShareGroupHeartbeat))
		for _, e := range kafkaproto.Table() {
			if e.By != kafkaproto.ByNobody {
				require.Contains(t, listed, e.Key, e.Name)
			}
		}
	}
}

// TestApiVersions_TelemetryWhileSubscribed: clients learn of the telemetry APIs while there is a client metrics subscription.
func TestApiVersions_TelemetryWhileSubscribed(t *testing.T) {
	c := catalogueOf(t)
	for i, subscriptions := range [][]*api.ClientMetrics{nil, {{Name: "s"}}, nil} {
		c.OnCatalogue(&api.Catalogue{Index: uint64(2 + i), ClientMetricsSet: true, ClientMetrics: subscriptions})
		out := call[*kmsg.ApiVersionsResponse](t, apiVersions{catalogue: c}, 3, apiVersionsRequest(), "")
		for _, key := range []kmsg.Key{kmsg.GetTelemetrySubscriptions, kmsg.PushTelemetry} {
			listed := slices.ContainsFunc(out.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == key.Int16() })
			require.Equal(t, len(subscriptions) > 0, listed, "%d: %s", i, key.Name())
		}
	}
}

func TestApiVersions_Features(t *testing.T) {
	names := func(version int16) (supported, finalized []string) {
		out := call[*kmsg.ApiVersionsResponse](t, apiVersions{}, version, apiVersionsRequest(), "")
		for _, f := range out.SupportedFeatures {
			supported = append(supported, f.Name)
		}
		for _, f := range out.FinalizedFeatures {
			finalized = append(finalized, f.Name)
		}
		return supported, finalized
	}
	supported, finalized := names(3)
	require.Equal(t, []string{"metadata.version"}, supported, "features from level 0 need version 4 (KAFKA-17011)")
	require.Equal(t, []string{"metadata.version", "transaction.version", "group.version"}, finalized)
	supported, _ = names(4)
	require.Contains(t, supported, "transaction.version")
	supported, _ = names(2)
	require.Empty(t, supported)
}

func TestDecode_CutsTrailingBytes(t *testing.T) {
	in := apiVersionsRequest()
	in.SetVersion(4)
	body := in.AppendTo(nil)
	req := &edge.Request{Key: in.Key(), Version: 4, Body: append(body[:len(body):len(body)], 0, 1, 2), Client: new(edge.Client)}
	out := kmsg.NewPtrApiVersionsRequest()
	require.NoError(t, Decode(req, out))
	require.Equal(t, in.ClientSoftwareVersion, out.ClientSoftwareVersion)
	require.Equal(t, body, req.Body)
}

func TestApiVersions_UnknownVersionIsAnsweredInVersionZero(t *testing.T) {
	in := apiVersionsRequest()
	in.SetVersion(6)
	reply := start(t, apiVersions{}, 6, in, "")()
	out := kmsg.NewPtrApiVersionsResponse()
	require.NoError(t, out.ReadFrom(reply.Head))
	require.Equal(t, kerr.UnsupportedVersion.Code, out.ErrorCode)
	require.Len(t, out.ApiKeys, 1)
	require.Equal(t, kafkaproto.KeyApiVersions, out.ApiKeys[0].ApiKey)
	require.EqualValues(t, 5, out.ApiKeys[0].MaxVersion)
}

func TestApiVersions_ChecksTheClusterOfMisroutedClients(t *testing.T) {
	catalogue := catalogueOf(t)
	own, other := "the-cluster", "another"
	for name, test := range map[string]struct {
		catalogue *view.Catalogue
		version   int16
		cluster   *string
		node      int32
		want      *kerr.Error
	}{
		"neither":                       {catalogue, 5, nil, -1, nil},
		"this cluster":                  {catalogue, 5, &own, 10, nil},
		"this cluster, another node":    {catalogue, 5, &own, 777, nil},
		"another cluster":               {catalogue, 5, &other, 10, kerr.RebootstrapRequired},
		"another cluster, old version":  {catalogue, 4, &other, 10, nil},
		"cluster without node":          {catalogue, 5, &own, -1, kerr.InvalidRequest},
		"node without cluster":          {catalogue, 5, nil, 10, kerr.InvalidRequest},
		"the agent knows no cluster id": {view.NewCatalogue(), 5, &other, 10, nil},
		"no catalogue":                  {nil, 5, &other, 10, nil},
	} {
		t.Run(name, func(t *testing.T) {
			in := apiVersionsRequest()
			in.ClusterID, in.NodeID = test.cluster, test.node
			out := call[*kmsg.ApiVersionsResponse](t, apiVersions{test.catalogue}, test.version, in, "")
			if test.want != nil {
				require.Equal(t, test.want.Code, out.ErrorCode)
				require.Empty(t, out.ApiKeys)
				return
			}
			require.Zero(t, out.ErrorCode)
			require.NotEmpty(t, out.ApiKeys)
		})
	}
}

func TestApiVersions_ChecksSoftwareNames(t *testing.T) {
	for _, test := range []struct {
		name, version string
		ok            bool
	}{
		{"a", "1", true},
		{"apache-kafka-java", "4.4.0-rc.1", true},
		{"", "1", false},
		{"a", "", false},
		{"a b", "1", false},
		{"-a", "1", false},
		{"a", "1.", false},
		{"ü", "1", false},
	} {
		in := apiVersionsRequest()
		in.ClientSoftwareName, in.ClientSoftwareVersion = test.name, test.version
		out := call[*kmsg.ApiVersionsResponse](t, apiVersions{}, 3, in, "")
		require.Equal(t, !test.ok, out.ErrorCode == kerr.InvalidRequest.Code, "%q %q", test.name, test.version)
		call[*kmsg.ApiVersionsResponse](t, apiVersions{}, 2, in, "")
	}
}
