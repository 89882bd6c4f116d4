package main

import (
	"context"
	"sync"
	"time"

	"github.com/freshet-io/freshet/agent"
	"github.com/freshet-io/freshet/internal/cli"
)

// portPatience is the time without readiness after which an agent looks whether --control-plane names ports of another protocol.
const portPatience = 3 * time.Second

// runAgent runs an agent. If no address of its control plane can be one, runAgent ends the agent and returns an error that names the
// right port: to wait for such a port cures nothing.
func runAgent(ctx context.Context, a *agent.Agent, controlPlane []string) error {
	ctx, cancel := context.WithCancel(ctx)
	var look sync.WaitGroup
	var foreign error
	look.Go(func() {
		starting, stop := context.WithTimeout(ctx, portPatience)
		defer stop()
		if a.Await(starting) == nil || ctx.Err() != nil {
			return
		}
		if foreign = cli.CheckControlPlane(ctx, controlPlane); foreign != nil {
			cancel()
		}
	})
	err := a.Run(ctx)
	cancel()
	look.Wait()
	if foreign != nil {
		return foreign
	}
	return err
}
