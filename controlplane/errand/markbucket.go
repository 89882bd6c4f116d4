package errand

import (
	"context"
	"fmt"

	"github.com/freshet-io/freshet/controlplane/api"
)

// MarkBucket has an agent write the marker of the agents' bucket again, if it was removed. ErrNoAgent means that no agent is left to ask.
func (d *Dispatcher) MarkBucket(ctx context.Context) error {
	_, err := d.do(ctx, Agents.MarkTakers, func(id uint64) *api.Errand {
		return &api.Errand{Id: id, Errand: &api.Errand_MarkBucket{MarkBucket: &api.MarkBucket{}}}
	}, func(done *api.ErrandDone) bool { return done.GetMarkedBucket() != nil })
	if err != nil {
		return fmt.Errorf("mark the bucket again: %w", err)
	}
	return nil
}
