// Package kafka answers Kafka requests on the agent. Each API has one file, which opens with the versions served and
// what changes between them, and holds one type that implements API. Handler dispatches: ApiVersions it answers
// itself, the APIs given to New answer their own keys, and what the version table (kafkaproto.Table) marks as the
// control plane's is forwarded.
//
// How an API is written:
//
//	type Produce struct{ ... }
//
//	func (*Produce) Key() int16 { return int16(kmsg.Produce) }
//
//	func (p *Produce) Start(ctx context.Context, req *edge.Request) func() edge.Reply {
//		in := kmsg.NewPtrProduceRequest()
//		if err := Decode(req, in); err != nil {
//			return Malformed(req, err) // closes the connection, as Kafka does
//		}
//		...                                // in request order; blocks only where back-pressure is meant
//		return func() edge.Reply {         // called once; may block until the answer is known
//			...
//			return Answer(req, out)
//		}
//	}
package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/kafkaproto"
)

// API answers the requests of one Kafka API.
//
// Start begins one request and returns the function that waits for its answer. The versions that reach it are those
// that kafkaproto.Table serves. Start is called in request order on the connection's reader: it must not block except
// as back-pressure (a Produce waiting for write buffers). The function it returns is called exactly once, on another
// goroutine, and may block; ctx ends when the connection does. Only Produce overlaps Produce of its connection.
type API interface {
	Key() int16
	Start(ctx context.Context, req *edge.Request) func() edge.Reply
}

// Config configures a Handler.
type Config struct {
	// APIs are those the agent answers itself, except ApiVersions. Each must be marked the agent's in
	// kafkaproto.Table, and every key so marked must be there.
	APIs []API
	// Forwarder carries the requests that are the control plane's to answer.
	Forwarder Forwarder
	// Prober tells how new a request is, for those that must not act on a later transaction than theirs.
	Prober view.Prober
	// Zones tells the zones of clients. Default: none is known.
	Zones *Zones
	// Catalogue and Views answer for shared listeners and clients abroad. Nil disables both.
	Catalogue *view.Catalogue
	Views     *Views
	// Answers bounds the memory of the control plane's answers. Nil means no bounds.
	Answers *Answers
	// Fault returns why the agent is not ready, for the log; nil while it is. Default: none is known.
	Fault func() error
	// Left reports whether this agent has left the membership while other agents remain. Members and consumers that only commit
	// are then redirected to them. Nil means never.
	Left func() bool
	Log  *zap.Logger
}

// ApplyDefaults sets what is zero to its default.
func (c *Config) ApplyDefaults() {
	if c.Zones == nil {
		c.Zones = new(Zones)
	}
	if c.Fault == nil {
		c.Fault = func() error { return nil }
	}
	c.Log = cmp.Or(c.Log, zap.NewNop())
}

// Handler dispatches requests to the API that answers them. It implements edge.Handler.
type Handler struct {
	apis    [kafkaproto.MaxKey + 1]API
	answers *Answers
	log     *zap.Logger
}

// New builds a Handler. It fails if an API is missing, given twice, or not the agent's to answer.
func New(cfg Config) (*Handler, error) {
	cfg.ApplyDefaults()
	h := &Handler{answers: cfg.Answers, log: cfg.Log}
	var errs []error
	for _, api := range append([]API{apiVersionsOf(&cfg)}, cfg.APIs...) {
		entry, ok := kafkaproto.Lookup(api.Key())
		switch {
		case !ok || entry.By != kafkaproto.ByAgent:
			errs = append(errs, fmt.Errorf("api key %d is not the agent's to answer", api.Key()))
		case h.apis[api.Key()] != nil:
			errs = append(errs, fmt.Errorf("%s is given twice", entry.Name))
		default:
			h.apis[api.Key()] = api
		}
	}
	for _, entry := range kafkaproto.Table() {
		switch {
		case entry.By == kafkaproto.ByControlPlane && cfg.Forwarder == nil:
			errs = append(errs, fmt.Errorf("no forwarder for %s", entry.Name))
		case entry.By == kafkaproto.ByControlPlane:
			h.apis[entry.Key] = newForwarded(entry.Key, cfg)
		case entry.By == kafkaproto.ByAgent && h.apis[entry.Key] == nil:
			errs = append(errs, fmt.Errorf("no API answers %s", entry.Name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("build kafka handler: %w", err)
	}
	return h, nil
}

// Start implements edge.Handler. A key or version that is not served closes the connection, as Kafka does;
// ApiVersions answers any version, and Produce below its first useful one answers UNSUPPORTED_VERSION by itself.
func (h *Handler) Start(ctx context.Context, req *edge.Request) func() edge.Reply {
	if req.Key == kafkaproto.KeyApiVersions {
		return h.apis[req.Key].Start(ctx, req)
	}
	if !kafkaproto.Serves(req.Key, req.Version) {
		h.log.Debug("request refused: api or version not served", zap.Int16("api_key", req.Key),
			zap.Int16("api_version", req.Version), zap.String("client_id", req.ClientID))
		return closed
	}
	return h.answers.within(ctx, req, h.apis[req.Key].Start)
}
