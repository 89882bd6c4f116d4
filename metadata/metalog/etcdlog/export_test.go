package etcdlog

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/metadata/metalog"
)

// Leases returns the leases of etcd.
func Leases(client *clientv3.Client) metalog.LeaseStore { return newLeases(client, DefaultPrefix) }
