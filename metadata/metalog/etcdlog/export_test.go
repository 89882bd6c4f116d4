package etcdlog

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/metadata/metalog"
)

// Leases returns the leases of etcd.
func Leases(client *clientv3.Client) metalog.LeaseStore { return newLeases(client, DefaultPrefix) }

// CheckOnce looks at the cluster once.
func (m *Maintainer) CheckOnce(ctx context.Context) error { return m.check(ctx) }

// SilentSince sets the time at which the maintainer first found a member that does not serve.
func (m *Maintainer) SilentSince(at time.Time) { m.silentSince = at }

// DefragTimeout is the time for which a member that does not serve delays the healing of a full cluster.
const DefragTimeout = defragTimeout
