package registry

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// leaseKind holds the lease of each hour by number. The key is attached to its lease, so both end together.
const leaseKind = "leases"

// lease returns the lease of the hour in which a record expires. The lease ends with that hour. All Registries get the same one. Errors: ErrInvalid
// for a time that has passed or is beyond MaxLifetime, etcd's.
func (r *Registry) lease(ctx context.Context, expires time.Time) (clientv3.LeaseID, error) {
	now := r.now()
	if left := expires.Sub(now); left <= 0 || left > MaxLifetime {
		return 0, fmt.Errorf("%w: expires in %v, want at most %v", ErrInvalid, left, MaxLifetime)
	}
	hour := expires.UnixMilli()/r.cfg.Hour.Milliseconds() + 1
	key := r.key(leaseKind, strconv.FormatInt(hour, 10))
	found, err := r.cfg.Client.Get(ctx, key)
	if err != nil {
		return 0, fmt.Errorf("read lease in etcd: %w", err)
	}
	if len(found.Kvs) > 0 {
		return clientv3.LeaseID(found.Kvs[0].Lease), nil
	}
	left := time.UnixMilli(hour * r.cfg.Hour.Milliseconds()).Sub(now)
	granted, err := r.cfg.Client.Grant(ctx, int64(left/time.Second)+1)
	if err != nil {
		return 0, fmt.Errorf("grant lease in etcd: %w", err)
	}
	resp, err := r.cfg.Client.Txn(ctx).
		If(absent(key)).
		Then(clientv3.OpPut(key, "", clientv3.WithLease(granted.ID))).
		Else(clientv3.OpGet(key)).
		Commit()
	if err != nil {
		return 0, fmt.Errorf("store lease in etcd: %w", err)
	}
	if resp.Succeeded {
		return granted.ID, nil
	}
	if _, err := r.cfg.Client.Revoke(ctx, granted.ID); err != nil { // another Registry was first
		return 0, fmt.Errorf("revoke surplus lease in etcd: %w", err)
	}
	return clientv3.LeaseID(resp.Responses[0].GetResponseRange().Kvs[0].Lease), nil
}

// commitLeased is commit for records with a lease. It reports false if the lease has just ended.
func (r *Registry) commitLeased(ctx context.Context, action string, cmps []clientv3.Cmp, ops []clientv3.Op) (bool, error) {
	done, err := r.commit(ctx, action, cmps, ops)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return false, nil
	}
	return done, err
}
