// Package forwarded decodes the Kafka requests that agents forward, has them answered, and encodes the answers, for
// parts that answer whole requests one at a time.
package forwarded

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/session"
)

// Handler answers one decoded request; C is what a part knows of a request under way.
type Handler[C any] func(c C, ctx context.Context, in kmsg.Request) (kmsg.Response, error)

// Handlers are the APIs that a part answers, by API key.
type Handlers[C any] map[int16]Handler[C]

// On adapts a method that answers one type of request.
func On[C any, In kmsg.Request, Out kmsg.Response](h func(C, context.Context, In) (Out, error)) Handler[C] {
	return func(c C, ctx context.Context, in kmsg.Request) (kmsg.Response, error) {
		return h(c, ctx, in.(In))
	}
}

// Keys gives the API keys answered.
func (hs Handlers[C]) Keys() []int16 { return slices.Collect(maps.Keys(hs)) }

// Handle answers a forwarded request with the response's body. Errors: session.ErrBadRequest if the request cannot be
// decoded or its API is not answered here; else there is no answer for now.
func (hs Handlers[C]) Handle(ctx context.Context, c C, f *api.Forward) ([]byte, error) {
	h, ok := hs[int16(f.ApiKey)]
	in := kmsg.RequestForKey(int16(f.ApiKey))
	if !ok || in == nil || f.ApiKey != int32(int16(f.ApiKey)) || f.ApiVersion < 0 || f.ApiVersion > int32(in.MaxVersion()) {
		return nil, fmt.Errorf("%w: api key %d version %d is not answered here", session.ErrBadRequest, f.ApiKey, f.ApiVersion)
	}
	in.SetVersion(int16(f.ApiVersion))
	if err := in.ReadFrom(f.Body); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", session.ErrBadRequest, kmsg.NameForKey(int16(f.ApiKey)), err)
	}
	out, err := h(c, ctx, in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kmsg.NameForKey(int16(f.ApiKey)), err)
	}
	out.SetVersion(int16(f.ApiVersion))
	return out.AppendTo(nil), nil
}
