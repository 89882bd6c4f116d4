package memlog

import (
	"context"
	"sync"

	"github.com/freshet-io/freshet/metadata/metalog"
)

// Lone returns l as a log whose tenures each have a lease of their own, for tests with one log. l is over store without a lease.
func Lone(l metalog.Log, store metalog.Store, leases metalog.LeaseStore, cfg metalog.Config) metalog.Log {
	return &lone{Log: l, store: store, leases: leases, cfg: cfg}
}

type lone struct {
	metalog.Log
	store  metalog.Store
	leases metalog.LeaseStore
	cfg    metalog.Config
}

// Acquire implements metalog.Log.
func (l *lone) Acquire(ctx context.Context, c metalog.Candidate) (metalog.Tenure, error) {
	lease, err := metalog.NewLease(l.leases, l.cfg)
	if err != nil {
		return nil, err
	}
	cfg := l.cfg
	cfg.Lease = lease
	under, err := metalog.New(l.store, cfg)
	if err != nil {
		return nil, err
	}
	stop := Start(lease)
	t, err := under.Acquire(ctx, c)
	if err != nil {
		stop()
		return nil, err
	}
	return &loneTenure{t, stop}, nil
}

type loneTenure struct {
	metalog.Tenure
	stop func()
}

// Resign implements metalog.Tenure.
func (t *loneTenure) Resign(ctx context.Context) error {
	defer t.stop()
	return t.Tenure.Resign(ctx)
}

// Start runs a lease until stop is called, which returns after its revocation.
func Start(lease *metalog.Lease) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = lease.Run(ctx) }) // returns nil
	return func() {
		cancel()
		running.Wait()
	}
}
