package controlplane

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/internal/accesskey"
)

// replicaKey is the key by which replicas authenticate to each other. A replica that finds no key in etcd writes one there. So access to etcd
// proves that a caller is a replica. If the key in etcd changes, replicas take the new one.
type replicaKey struct {
	client  *clientv3.Client
	name    string // of the key in etcd
	set     *keys.Set
	current atomic.Pointer[string]
}

// get returns the key, "" before etcd's first answer.
func (k *replicaKey) get() string {
	if key := k.current.Load(); key != nil {
		return *key
	}
	return ""
}

// learn takes found, the key in etcd. If found is "", learn creates the key.
func (k *replicaKey) learn(ctx context.Context, found string) error {
	if found == "" {
		var err error
		if found, err = k.create(ctx); err != nil {
			return fmt.Errorf("make the key of replicas: %w", err)
		}
		if found == "" {
			return fmt.Errorf("key of replicas in etcd, %s, is empty: remove it", k.name)
		}
	}
	if found == k.get() {
		return nil
	}
	if err := k.set.Replace("replicas", []keys.Entry{{Hash: accesskey.HashOf(found), Kind: keys.Replica}}); err != nil {
		return fmt.Errorf("key of replicas in etcd, %s: %w", k.name, err)
	}
	k.current.Store(&found)
	return nil
}

// create writes a key to etcd and returns the key. If another replica was first, create returns that replica's key.
func (k *replicaKey) create(ctx context.Context) (string, error) {
	made := rand.Text() + rand.Text() // 260 random bits
	resp, err := k.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(k.name), "=", 0)).
		Then(clientv3.OpPut(k.name, made)).
		Else(clientv3.OpGet(k.name)).
		Commit()
	if err != nil {
		return "", err
	}
	if kvs := resp.Responses[0].GetResponseRange().GetKvs(); !resp.Succeeded && len(kvs) == 1 {
		return string(kvs[0].Value), nil
	}
	return made, nil
}
