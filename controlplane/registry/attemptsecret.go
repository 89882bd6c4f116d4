package registry

import (
	"context"
	"crypto/rand"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// attemptSecretBytes is the length of the secret of attempts.
const attemptSecretBytes = sha256Size

func (r *Registry) attemptSecretKey() string { return r.key("attempts-secret") }

// attemptSecret returns the secret from which slots of attempts follow. If etcd has none, or a malformed value, it stores a random one. All Registries
// get the same. Errors: etcd's, ErrConflict.
func (r *Registry) attemptSecret(ctx context.Context) (secret []byte, err error) {
	if known := r.secret.Load(); known != nil {
		return *known, nil
	}
	key := r.attemptSecretKey()
	err = retry(ctx, func() (bool, error) {
		found, err := r.cfg.Client.Get(ctx, key)
		if err != nil {
			return false, fmt.Errorf("read the secret of attempts in etcd: %w", err)
		}
		revision := int64(0)
		if len(found.Kvs) > 0 {
			secret, revision = found.Kvs[0].Value, found.Kvs[0].ModRevision
		}
		if len(secret) == attemptSecretBytes {
			return true, nil
		}
		secret = make([]byte, attemptSecretBytes)
		_, _ = rand.Read(secret) // never fails
		unchanged := clientv3.Compare(clientv3.ModRevision(key), "=", revision)
		return r.commit(ctx, "store the secret of attempts", []clientv3.Cmp{unchanged}, []clientv3.Op{clientv3.OpPut(key, string(secret))})
	})
	if err != nil {
		return nil, err
	}
	r.secret.Store(&secret)
	return secret, nil
}
