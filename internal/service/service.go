// Package service runs the long-lived parts of a process: all start together, the first to end ends all, and they
// stop one by one in reverse order, so that a part never outlives what it depends on.
package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// Service is one long-lived part. Run blocks until ctx ends, then drains, bounded by itself, and returns.
type Service struct {
	Name string
	Run  func(ctx context.Context) error
	// Stopping, if set, is called once when the services begin to stop, before any context ends. It must not block.
	Stopping func()
}

// errEnded is what a service that returned without being told to counts as.
var errEnded = errors.New("ended unexpectedly")

// ended is one service's return.
type ended struct {
	index int
	err   error
}

// Run runs the services until ctx ends or one of them returns, then stops them from last to first, each only when
// the one after it has returned. It gives the errors of all, nil if all ended cleanly because ctx did. A service
// that depends on another comes after it in the list.
func Run(ctx context.Context, log *zap.Logger, services ...Service) error {
	g := start(ctx, services)
	select {
	case <-ctx.Done():
	case first := <-g.ended:
		g.note(first)
		if first.err == nil {
			g.errs = append(g.errs, fmt.Errorf("%s: %w", services[first.index].Name, errEnded))
		}
	}
	for _, s := range services {
		if s.Stopping != nil {
			s.Stopping()
		}
	}
	for i := len(services) - 1; i >= 0; i-- {
		began := time.Now()
		g.stop(i)
		log.Debug("service stopped", zap.String("service", services[i].Name), zap.Duration("took", time.Since(began)))
	}
	return errors.Join(g.errs...)
}

// group is what Run knows of the services it started.
type group struct {
	services []Service
	cancel   []context.CancelFunc
	returned []bool
	ended    chan ended
	errs     []error
}

func start(ctx context.Context, services []Service) *group {
	g := &group{
		services: services,
		cancel:   make([]context.CancelFunc, len(services)),
		returned: make([]bool, len(services)),
		ended:    make(chan ended, len(services)),
	}
	for i, s := range services {
		// Each has a context of its own: the end of ctx must not stop all at once.
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		g.cancel[i] = cancel
		go func() { g.ended <- ended{i, s.Run(own)} }()
	}
	return g
}

// stop tells one service to stop and waits for it.
func (g *group) stop(i int) {
	g.cancel[i]()
	for !g.returned[i] {
		g.note(<-g.ended)
	}
}

func (g *group) note(e ended) {
	g.returned[e.index] = true
	if e.err != nil && !errors.Is(e.err, context.Canceled) {
		g.errs = append(g.errs, fmt.Errorf("%s: %w", g.services[e.index].Name, e.err))
	}
}
