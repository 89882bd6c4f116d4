package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// registry keeps this replica's address in etcd under a lease, and knows those of the others. Agents are told them,
// nothing is decided by them; and their versions, by which the states' rise.
type registry struct {
	client    *clientv3.Client
	prefix    string // of all replicas' keys, ends with a slash
	replica   string
	address   string
	log       *zap.Logger
	addresses atomic.Pointer[[]string]
	versions  *versions
	known     chan struct{} // closed when the others' versions were read for the first time
	failed    atomic.Pointer[error]
}

// Replicas gives the addresses of the replicas that are registered, this one's among them.
func (r *registry) Replicas() []string {
	if known := r.addresses.Load(); known != nil {
		return *known
	}
	return []string{r.address}
}

// fault tells why the registry could not be reached when it was last tried, nil if it could.
func (r *registry) fault() error {
	if err := r.failed.Load(); err != nil && *err != nil {
		return fmt.Errorf("registry of replicas in etcd cannot be reached: %w", *err)
	}
	return nil
}

// run registers until ctx ends, then takes the registration back.
func (r *registry) run(ctx context.Context) error {
	tick := time.NewTicker(readRegistry)
	defer tick.Stop()
	var lease clientv3.LeaseID
	known := sync.OnceFunc(func() { close(r.known) })
	failing := false
	for {
		var err error
		if lease, err = r.renew(ctx, lease); err == nil {
			err = errors.Join(r.read(ctx), r.versions.round(ctx))
		}
		if err == nil {
			known()
		}
		if err != nil && ctx.Err() == nil && !failing { // what else needs etcd goes on telling
			r.log.Warn("registry of replicas in etcd cannot be reached", zap.Error(err))
		}
		failing = err != nil
		r.failed.Store(&err)
		select {
		case <-ctx.Done():
			return r.leave(lease)
		case <-tick.C:
		}
	}
}

// renew keeps the lease alive, or registers anew.
func (r *registry) renew(ctx context.Context, lease clientv3.LeaseID) (clientv3.LeaseID, error) {
	ctx, cancel := context.WithTimeout(ctx, readRegistry)
	defer cancel()
	if lease != 0 {
		if _, err := r.client.KeepAliveOnce(ctx, lease); err == nil {
			return lease, nil
		}
	}
	granted, err := r.client.Grant(ctx, int64(registration/time.Second))
	if err != nil {
		return 0, fmt.Errorf("lease for the replica's address: %w", err)
	}
	if _, err := r.client.Put(ctx, r.prefix+r.replica, r.address, clientv3.WithLease(granted.ID)); err != nil {
		return 0, fmt.Errorf("register the replica's address: %w", err)
	}
	return granted.ID, nil
}

func (r *registry) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readRegistry)
	defer cancel()
	response, err := r.client.Get(ctx, r.prefix, clientv3.WithPrefix(), clientv3.WithSerializable())
	if err != nil {
		return fmt.Errorf("read the replicas' addresses: %w", err)
	}
	addresses := []string{r.address}
	for _, kv := range response.Kvs {
		if address := string(kv.Value); !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
	}
	r.addresses.Store(&addresses)
	return nil
}

func (r *registry) leave(lease clientv3.LeaseID) error {
	if lease == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), readRegistry)
	defer cancel()
	if _, err := r.client.Revoke(ctx, lease); err != nil {
		r.log.Info("replica's address is left to its lease", zap.Error(err))
	}
	return nil
}
