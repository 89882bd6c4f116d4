package sim

import (
	"context"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/session"
)

// part answers the forwarded requests of some APIs.
type part interface {
	Keys() []int16
	Handle(ctx context.Context, f *api.Forward) ([]byte, error)
}

// starter answers those of some APIs without blocking.
type starter interface {
	session.Forwards
	Keys() []int16
}

// forwards is what a replica here answers for agents.
type forwards struct {
	spawn    session.Spawn
	parts    map[int32]part
	starters map[int32]starter
}

func newForwards(spawn session.Spawn, s starter, parts ...part) *forwards {
	f := &forwards{spawn: spawn, parts: map[int32]part{}, starters: map[int32]starter{}}
	for _, key := range s.Keys() {
		f.starters[int32(key)] = s
	}
	for _, p := range parts {
		for _, key := range p.Keys() {
			f.parts[int32(key)] = p
		}
	}
	return f
}

// Start implements session.Forwards.
func (f *forwards) Start(ctx context.Context, r *api.Forward, reply func([]byte, error)) {
	if s := f.starters[r.ApiKey]; s != nil {
		s.Start(ctx, r, reply)
		return
	}
	p := f.parts[r.ApiKey]
	if p == nil {
		reply(nil, session.ErrBadRequest)
		return
	}
	f.spawn(func(ctx context.Context) { reply(p.Handle(ctx, r)) })
}
