package etcdlog

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/metadata/metalog"
)

// Leases returns the leases of etcd.
func Leases(client *clientv3.Client) metalog.LeaseStore { return newLeases(client, DefaultPrefix) }

// CheckOnce looks at the cluster once.
func (m *Maintainer) CheckOnce(ctx context.Context) error { return m.check(ctx) }

// AgeSilence moves the time since when members do not serve back by the longest time for which they delay the healing of a full cluster.
func (m *Maintainer) AgeSilence() {
	for endpoint, since := range m.silent {
		m.silent[endpoint] = since.Add(-defragTimeout)
	}
}
