package controlplane

import (
	"context"
	"fmt"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/session"
)

// handler answers forwarded requests of some APIs and may block while it does.
type handler interface {
	Keys() []int16
	Handle(ctx context.Context, f *api.Forward) ([]byte, error)
}

// starter answers forwarded requests of some APIs without blocking (see session.Forwards).
type starter interface {
	session.Forwards
	Keys() []int16
}

// forwards sends each forwarded request to the part that answers its API. It implements session.Forwards.
type forwards struct {
	spawn session.Spawn
	parts map[int16]session.Forwards
}

func newForwards(spawn session.Spawn) *forwards {
	return &forwards{spawn: spawn, parts: map[int16]session.Forwards{}}
}

// handle has h answer its APIs, each request on a goroutine of the tenure.
func (f *forwards) handle(h handler) { f.add(h.Keys(), &blocking{handler: h, spawn: f.spawn}) }

// start has s answer its APIs.
func (f *forwards) start(s starter) { f.add(s.Keys(), s) }

func (f *forwards) add(keys []int16, part session.Forwards) {
	for _, key := range keys {
		if f.parts[key] != nil {
			panic(fmt.Sprintf("controlplane: two parts answer api key %d", key))
		}
		f.parts[key] = part
	}
}

// Start implements session.Forwards.
func (f *forwards) Start(ctx context.Context, r *api.Forward, reply func(body []byte, err error)) {
	part := f.parts[int16(r.ApiKey)]
	if part == nil || r.ApiKey != int32(int16(r.ApiKey)) {
		reply(nil, fmt.Errorf("%w: api key %d is not answered here", session.ErrBadRequest, r.ApiKey))
		return
	}
	part.Start(ctx, r, reply)
}

// blocking makes session.Forwards of a handler.
type blocking struct {
	handler handler
	spawn   session.Spawn
}

func (b *blocking) Start(ctx context.Context, r *api.Forward, reply func(body []byte, err error)) {
	// Refused: the tenure is over, and nobody waits for the answer.
	b.spawn(func(context.Context) { reply(b.handler.Handle(ctx, r)) })
}
