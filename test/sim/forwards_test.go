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

// forwards is what a replica here answers for agents.
type forwards struct {
	spawn session.Spawn
	parts map[int32]part
}

func newForwards(spawn session.Spawn, parts ...part) *forwards {
	f := &forwards{spawn: spawn, parts: map[int32]part{}}
	for _, p := range parts {
		for _, key := range p.Keys() {
			f.parts[int32(key)] = p
		}
	}
	return f
}

// Start implements session.Forwards.
func (f *forwards) Start(_ context.Context, r *api.Forward, reply func([]byte, error)) {
	p := f.parts[r.ApiKey]
	if p == nil {
		reply(nil, session.ErrBadRequest)
		return
	}
	f.spawn(func(ctx context.Context) { reply(p.Handle(ctx, r)) })
}
