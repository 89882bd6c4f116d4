package kafka

import (
	"context"
	"regexp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/kafkaproto"
)

// ApiVersions, key 18, versions 0-5; any other version is answered in version 0 with UNSUPPORTED_VERSION and the
// range of ApiVersions itself, so that the client can ask again (KIP-511).
//
//	1 adds the throttle time
//	3 is flexible (never in the response's header), adds the client's software name and version, and features
//	4 shows features whose lowest version is 0 (KAFKA-17011)
//	5 adds the cluster id and node id that the client expects (KIP-1242)
type apiVersions struct {
	catalogue *view.Catalogue // nil disables the check of the cluster id, and stands for no client metrics subscriptions
}

// softwarePattern is what a client's software name and version must match (KIP-511).
var softwarePattern = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

func (apiVersions) Key() int16 { return kafkaproto.KeyApiVersions }

func (a apiVersions) Start(_ context.Context, req *edge.Request) func() edge.Reply {
	if !kafkaproto.Serves(req.Key, req.Version) {
		return Ready(unsupportedApiVersions())
	}
	in := kmsg.NewPtrApiVersionsRequest()
	if err := Decode(req, in); err != nil {
		return Malformed(req, err)
	}
	named := softwarePattern.MatchString(in.ClientSoftwareName) && softwarePattern.MatchString(in.ClientSoftwareVersion)
	half := req.Version >= expectsClusterSince && (in.ClusterID == nil) != (in.NodeID == -1)
	switch {
	case half, req.Version >= 3 && !named:
		return refuseApiVersions(req, kerr.InvalidRequest)
	case a.misrouted(in):
		return refuseApiVersions(req, kerr.RebootstrapRequired)
	}
	if named {
		req.Client.SetSoftware(edge.Software{Name: in.ClientSoftwareName, Version: in.ClientSoftwareVersion})
	}
	if a.catalogue != nil && len(a.catalogue.Load().ClientMetrics) > 0 {
		return Ready(edge.Reply{Head: withTelemetry[req.Version]})
	}
	return Ready(edge.Reply{Head: withoutTelemetry[req.Version]})
}

// expectsClusterSince is the first version in which the client names the cluster and node that it means to reach.
const expectsClusterSince = 5

// misrouted reports whether the client means to reach another cluster (KIP-1242, KafkaApis.handleApiVersionsRequest). Kafka compares
// the node id too. Here one address stands for several nodes, and a node's address moves to another agent, so any node id passes.
// An agent that does not know its cluster id yet lets every client pass.
func (a apiVersions) misrouted(in *kmsg.ApiVersionsRequest) bool {
	if in.Version < expectsClusterSince || in.ClusterID == nil || a.catalogue == nil {
		return false
	}
	own := a.catalogue.Load().ClusterID
	return own != "" && *in.ClusterID != own
}

func refuseApiVersions(req *edge.Request, code *kerr.Error) func() edge.Reply {
	out := kmsg.NewPtrApiVersionsResponse()
	out.ErrorCode = code.Code
	return Ready(Answer(req, out))
}

// withTelemetry and withoutTelemetry have the answer of each version, which every client gets first on each connection. Kafka advertises
// GetTelemetrySubscriptions and PushTelemetry if a plug-in takes the metrics (KIP-714). Here agents take them, and advertise the two
// while there is a client metrics subscription: librdkafka logs a line per client otherwise.
var withTelemetry, withoutTelemetry = encodeSupported(true), encodeSupported(false)

func encodeSupported(telemetry bool) (answers [][]byte) {
	entry, _ := kafkaproto.Lookup(kafkaproto.KeyApiVersions)
	for version := range entry.Served.Max + 1 {
		out := kmsg.NewPtrApiVersionsResponse()
		out.Version, out.ApiKeys = version, advertised(telemetry)
		addFeatures(out, version)
		answers = append(answers, out.AppendTo(nil))
	}
	return answers
}

// unsupportedApiVersions answers a version that is not known, in version 0.
func unsupportedApiVersions() edge.Reply {
	out := kmsg.NewPtrApiVersionsResponse()
	out.ErrorCode = kerr.UnsupportedVersion.Code
	entry, _ := kafkaproto.Lookup(kafkaproto.KeyApiVersions)
	out.ApiKeys = []kmsg.ApiVersionsResponseApiKey{apiKey(entry)}
	out.SetVersion(0)
	return edge.Reply{Head: out.AppendTo(nil)}
}

func advertised(telemetry bool) []kmsg.ApiVersionsResponseApiKey {
	var keys []kmsg.ApiVersionsResponseApiKey
	for _, entry := range kafkaproto.Table() {
		subscribed := entry.Key == int16(kmsg.GetTelemetrySubscriptions) || entry.Key == int16(kmsg.PushTelemetry)
		if !entry.Advertised().Empty() && (telemetry || !subscribed) {
			keys = append(keys, apiKey(entry))
		}
	}
	return keys
}

func apiKey(entry kafkaproto.Entry) kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey = entry.Key
	k.MinVersion, k.MaxVersion = entry.Advertised().Min, entry.Advertised().Max
	return k
}

// addFeatures lists the feature levels of the table. A finalized level of 0 is left out, as Kafka does; versions 0-3
// omit features whose lowest version is 0.
func addFeatures(out *kmsg.ApiVersionsResponse, version int16) {
	out.FinalizedFeaturesEpoch = 0
	for _, f := range kafkaproto.Features() {
		if version < 4 && f.Min == 0 {
			continue
		}
		s := kmsg.NewApiVersionsResponseSupportedFeature()
		s.Name, s.MinVersion, s.MaxVersion = f.Name, f.Min, f.Max
		out.SupportedFeatures = append(out.SupportedFeatures, s)
	}
	for _, f := range kafkaproto.Features() {
		if f.Finalized == 0 {
			continue
		}
		s := kmsg.NewApiVersionsResponseFinalizedFeature()
		s.Name, s.MinVersionLevel, s.MaxVersionLevel = f.Name, f.Finalized, f.Finalized
		out.FinalizedFeatures = append(out.FinalizedFeatures, s)
	}
}
