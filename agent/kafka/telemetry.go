package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/telemetry"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/internal/clientmetrics"
	"github.com/freshet-io/freshet/kafkaproto"
)

// GetTelemetrySubscriptions, key 71, and PushTelemetry, key 72, version 0 (KIP-714). Both are flexible.
//
// The agent answers from the subscriptions in its catalogue; what clients push becomes metrics of the agent (package
// telemetry).

type telemetryAPI struct {
	catalogue *view.Catalogue
	clients   *telemetry.Telemetry
}

type getTelemetrySubscriptions struct{ telemetryAPI }

type pushTelemetry struct{ telemetryAPI }

// NewTelemetry gives the two APIs.
func NewTelemetry(catalogue *view.Catalogue, clients *telemetry.Telemetry) []API {
	both := telemetryAPI{catalogue, clients}
	return []API{getTelemetrySubscriptions{both}, pushTelemetry{both}}
}

// current gives the clients as of the newest subscriptions.
func (t *telemetryAPI) current() *telemetry.Telemetry {
	s := t.catalogue.Load()
	t.clients.Subscribe(s.MetricsVersion, s.ClientMetrics)
	return t.clients
}

func (getTelemetrySubscriptions) Key() int16 { return int16(kmsg.GetTelemetrySubscriptions) }

func (g getTelemetrySubscriptions) Start(_ context.Context, req *edge.Request) func() edge.Reply {
	in := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
	if err := Decode(req, in); err != nil {
		return Malformed(req, err)
	}
	out := kmsg.NewPtrGetTelemetrySubscriptionsResponse()
	answer, err := g.current().Get(in.ClientInstanceID, aboutClient(req))
	if err != nil {
		out.ErrorCode = telemetryCode(err)
		return Ready(Answer(req, out))
	}
	out.ClientInstanceID, out.SubscriptionID, out.RequestedMetrics = answer.ID, answer.Subscription, answer.Metrics
	out.PushIntervalMillis, out.TelemetryMaxBytes = int32(answer.Interval.Milliseconds()), telemetry.MaxBytes
	out.DeltaTemporality = true
	for _, codec := range telemetry.Codecs() {
		out.AcceptedCompressionTypes = append(out.AcceptedCompressionTypes, int8(codec))
	}
	return Ready(Answer(req, out))
}

func (pushTelemetry) Key() int16 { return int16(kmsg.PushTelemetry) }

// Start reads the metrics on the waiting goroutine: decompressing takes time.
func (p pushTelemetry) Start(_ context.Context, req *edge.Request) func() edge.Reply {
	in := kmsg.NewPtrPushTelemetryRequest()
	if err := Decode(req, in); err != nil {
		return Malformed(req, err)
	}
	return func() edge.Reply {
		out := kmsg.NewPtrPushTelemetryResponse()
		out.ErrorCode = telemetryCode(p.current().Push(telemetry.Push{
			ID: in.ClientInstanceID, Subscription: in.SubscriptionID, Terminating: in.Terminating,
			Compression: kafkaproto.Codec(in.CompressionType), Metrics: in.Metrics,
		}, aboutClient(req)))
		return Answer(req, out)
	}
}

// aboutClient is what subscriptions can select the client by.
func aboutClient(req *edge.Request) clientmetrics.Client {
	software := req.Client.Software()
	return clientmetrics.Client{
		ClientID: req.ClientID, SoftwareName: software.Name, SoftwareVersion: software.Version,
		SourceAddress: req.Client.Host, SourcePort: req.Client.Port,
	}
}

func telemetryCode(err error) int16 {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, telemetry.ErrThrottled):
		return kerr.ThrottlingQuotaExceeded.Code
	case errors.Is(err, telemetry.ErrTerminated):
		return kerr.InvalidRequest.Code
	case errors.Is(err, telemetry.ErrUnknownSubscription):
		return kerr.UnknownSubscriptionID.Code
	case errors.Is(err, telemetry.ErrTooLarge):
		return kerr.TelemetryTooLarge.Code
	case errors.Is(err, telemetry.ErrCompression):
		return kerr.UnsupportedCompressionType.Code
	case errors.Is(err, telemetry.ErrInvalid):
		return kerr.InvalidRecord.Code
	default:
		return kerr.UnknownServerError.Code
	}
}
