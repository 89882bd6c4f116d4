package etcdlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/metadata/metalog"
)

// NewLease returns a replica's lease in etcd, for metalog.Config.Lease of its logs, which have the same prefix (Config.Prefix). It starts
// nothing. cfg.Lease is not used.
func NewLease(client *clientv3.Client, prefix string, cfg metalog.Config) (*metalog.Lease, error) {
	return metalog.NewLease(newLeases(client, prefix), cfg)
}

// leases are the requests of metalog.LeaseStore over etcd.
type leases struct {
	client *clientv3.Client
	owners string // where the ownership keys of all virtual clusters begin
}

func newLeases(client *clientv3.Client, prefix string) leases {
	return leases{client: client, owners: ownersPrefix(cmp.Or(prefix, DefaultPrefix))}
}

var _ metalog.LeaseStore = leases{}

func (l leases) Grant(ctx context.Context, ttl time.Duration) (metalog.LeaseID, error) {
	resp, err := l.client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return 0, err
	}
	return metalog.LeaseID(resp.ID), nil
}

func (l leases) Renew(ctx context.Context, lease metalog.LeaseID) error {
	_, err := l.client.KeepAliveOnce(ctx, clientv3.LeaseID(lease))
	return leaseError(err)
}

func (l leases) Revoke(ctx context.Context, lease metalog.LeaseID) error {
	_, err := l.client.Revoke(ctx, clientv3.LeaseID(lease))
	if err = leaseError(err); errors.Is(err, metalog.ErrLeaseGone) {
		return nil
	}
	return err
}

// leaseError maps etcd's "lease not found".
func leaseError(err error) error {
	if isEtcdError(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("%w: %w", metalog.ErrLeaseGone, err)
	}
	return err
}
