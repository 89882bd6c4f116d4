package directory

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// PeerSecretPrefix is the common beginning of the keys of all clusters' peer secrets.
func (d Directory) PeerSecretPrefix() string { return d.Prefix + "/+peers/" }

// PeerSecretKey returns the key of a cluster's peer secret.
func (d Directory) PeerSecretKey(clusterID string) string { return d.PeerSecretPrefix() + clusterID }

// PeerSecret returns the secret by which the agents of a cluster know each other. If there is none, or a malformed value, it stores a
// random one. All replicas get the same. Error: etcd's.
func (d Directory) PeerSecret(ctx context.Context, clusterID string) (string, error) {
	key := d.PeerSecretKey(clusterID)
	found, err := d.Client.Get(ctx, key)
	if err != nil {
		return "", fmt.Errorf("read the peer secret of cluster %s in etcd: %w", clusterID, err)
	}
	stored, revision := only(found.Kvs)
	if validSecret(stored) {
		return stored, nil
	}
	made := newSecret()
	put, err := d.Client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
		Then(clientv3.OpPut(key, made)).
		Else(clientv3.OpGet(key)).
		Commit()
	if err != nil {
		return "", fmt.Errorf("store a peer secret of cluster %s in etcd: %w", clusterID, err)
	}
	if put.Succeeded {
		return made, nil
	}
	if stored, _ = only(put.Responses[0].GetResponseRange().Kvs); validSecret(stored) {
		return stored, nil
	}
	return "", fmt.Errorf("etcd key %s changes while a peer secret is stored", key)
}

// only returns the value of a key and its revision, "" and 0 if the key does not exist.
func only(kvs []*mvccpb.KeyValue) (value string, revision int64) {
	if len(kvs) == 0 {
		return "", 0
	}
	return string(kvs[0].Value), kvs[0].ModRevision
}

// secretLength is the length of a secret in characters of 5 bits.
const secretLength = 52

// newSecret returns 260 random bits as text.
func newSecret() string { return rand.Text() + rand.Text() }

// validSecret reports whether a value has the form of newSecret, so that it fits into a header and cannot be guessed.
func validSecret(value string) bool {
	return len(value) == secretLength && strings.Trim(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}
