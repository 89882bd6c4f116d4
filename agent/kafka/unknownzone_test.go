package kafka

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/controlplane/api"
)

// unknownZoneRig is the Metadata API of an agent in zone a, with its metrics and its log.
type unknownZoneRig struct {
	*Metadata
	t       *testing.T
	metrics *prometheus.Registry
	logs    *observer.ObservedLogs
}

func newUnknownZoneRig(t *testing.T, members ...*api.Member) *unknownZoneRig {
	t.Helper()
	c := catalogueOf(t)
	c.OnCatalogue(&api.Catalogue{Index: 20, Membership: &api.Membership{Version: 20, Members: members}})
	r := &unknownZoneRig{t: t, metrics: prometheus.NewRegistry()}
	var core zapcore.Core
	core, r.logs = observer.New(zap.InfoLevel)
	r.Metadata = NewMetadata(MetadataConfig{Catalogue: c, Views: zonedViews(t, "a"), Prober: never(t), Log: zap.New(core), Registerer: r.metrics})
	return r
}

// ask sends Metadata, and returns the number of clients that are counted then.
func (r *unknownZoneRig) ask(clientID, listener string) (counted int) {
	r.t.Helper()
	in := metadataRequest("alpha")
	in.SetVersion(12)
	reply := r.Start(r.t.Context(), &edge.Request{
		Key: int16(kmsg.Metadata), Version: 12, ClientID: clientID, Body: in.AppendTo(nil), Client: &edge.Client{Host: "10.0.0.1", Listener: listener},
	})()
	require.False(r.t, reply.Close)
	metrics, err := r.metrics.Gather()
	require.NoError(r.t, err)
	return int(metrics[0].Metric[0].GetGauge().GetValue())
}

// TestMetadata_CountsClientsOfUnknownZone: each client ID is counted and logged once a day, with an address of each zone's listener.
func TestMetadata_CountsClientsOfUnknownZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newUnknownZoneRig(t, zonedMember(1, "a", "a", "b"), zonedMember(2, "b", "a", "b"), zonedMember(3, "b", "a", "b", "c"))
		require.Zero(t, r.ask("billing,zone=b", ""))
		require.Zero(t, r.ask("billing", "b"))
		require.Equal(t, 1, r.ask("billing", ""))
		require.Equal(t, 1, r.ask("billing", ""))
		require.Equal(t, 2, r.ask("audit", ""))
		logged := r.logs.TakeAll()
		require.Len(t, logged, 2)
		require.Equal(t, map[string]any{
			"client_id": "billing", "host": "10.0.0.1", "bootstrap": []any{"a=agent-a:9192", "b=agent-b:9196", "c=agent-b:9200"},
		}, logged[0].ContextMap())

		passTime(unknownZonePeriod)
		require.Equal(t, 1, r.ask("billing", ""), "again, a day later")
		require.Equal(t, 1, r.logs.Len())
	})
}

// TestMetadata_CountsNoClientsOfOneZone: without zones, and with one, there is nowhere else to go.
func TestMetadata_CountsNoClientsOfOneZone(t *testing.T) {
	for _, members := range [][]*api.Member{{zonedMember(1, "a"), zonedMember(2, "a")}, {zonedMember(1, ""), zonedMember(2, "a")}} {
		r := newUnknownZoneRig(t, members...)
		require.Zero(t, r.ask("billing", ""))
		require.Zero(t, r.logs.Len())
	}
}

// TestMetadata_BoundsClientsOfUnknownZone: clients make up names, and names are long.
func TestMetadata_BoundsClientsOfUnknownZone(t *testing.T) {
	r := newUnknownZoneRig(t, zonedMember(1, "a"), zonedMember(2, "b"))
	for i := range maxUnknownZone + 10 {
		r.ask(fmt.Sprint(i, strings.Repeat("x", 2*maxZoneID)), "")
	}
	require.Equal(t, maxUnknownZone, r.ask("one more", ""))
	require.Equal(t, maxUnknownZone, r.logs.Len())
	require.Len(t, r.logs.All()[0].ContextMap()["client_id"], maxZoneID)
}
