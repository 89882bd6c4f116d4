package kafka

import (
	"crypto/rand"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/telemetry"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/api"
)

// TestTelemetry_FollowsTheCatalogue: a client is asked for what is subscribed to by its software, as it said in
// ApiVersions.
func TestTelemetry_FollowsTheCatalogue(t *testing.T) {
	catalogue := view.NewCatalogue()
	catalogue.OnCatalogue(&api.Catalogue{Index: 5, Full: true, ClientMetricsSet: true, ClientMetrics: []*api.ClientMetrics{
		{Name: "s", Configs: map[string]string{"metrics": "a.", "match": "client_software_name=tested"}},
	}})
	apis := NewTelemetry(catalogue, telemetry.New(telemetry.Config{Random: rand.Reader}))
	ask := func(software string) *kmsg.GetTelemetrySubscriptionsResponse {
		c := &edge.Client{ID: 1}
		hello := kmsg.NewPtrApiVersionsRequest()
		hello.SetVersion(3)
		hello.ClientSoftwareName, hello.ClientSoftwareVersion = software, "1"
		apiVersions{}.Start(t.Context(), &edge.Request{Key: 18, Version: 3, Body: hello.AppendTo(nil), Client: c})()
		in := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
		reply := apis[0].Start(t.Context(), &edge.Request{Key: in.Key(), Body: in.AppendTo(nil), Client: c})()
		out := kmsg.NewPtrGetTelemetrySubscriptionsResponse()
		require.NoError(t, out.ReadFrom(reply.Head))
		require.Zero(t, out.ErrorCode)
		return out
	}
	require.Empty(t, ask("another").RequestedMetrics)
	out := ask("tested")
	require.Equal(t, []string{"a."}, out.RequestedMetrics)
	require.Equal(t, []int8{4, 3, 1, 2}, out.AcceptedCompressionTypes)

	push := kmsg.NewPtrPushTelemetryRequest()
	push.ClientInstanceID, push.SubscriptionID, push.Metrics = out.ClientInstanceID, out.SubscriptionID, []byte{0xff}
	reply := apis[1].Start(t.Context(), &edge.Request{Key: push.Key(), Body: push.AppendTo(nil), Client: &edge.Client{}})()
	answer := kmsg.NewPtrPushTelemetryResponse()
	require.NoError(t, answer.ReadFrom(reply.Head))
	require.Equal(t, kerr.InvalidRecord.Code, answer.ErrorCode)
}
