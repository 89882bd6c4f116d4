package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
)

// peerSecrets follows the secrets by which the agents of virtual clusters know each other. The members' round reads changed secrets with
// the request for the replicas' addresses, from one member of etcd, which may lag behind. So a difference is only the occasion to ask
// for the newest secret. The zero value follows none.
type peerSecrets struct {
	// Of the members' round alone: the revision as of which all secrets were compared, 0 for none, and their number then.
	compared int64
	stored   int64

	mu struct {
		sync.Mutex
		followed followedSecrets
	}
}

// followedSecrets are the secrets of all virtual clusters whose id is known.
type followedSecrets []*followedSecret

// followedSecret is the secret of one virtual cluster.
type followedSecret struct {
	directory directory.Directory
	clusterID string
	stored    bool         // Spec.Stored
	known     string       // used by follow, and then by the members' round
	learned   func(string) // called with each new secret
}

// follow calls learned with the secret of a cluster, before follow returns, and with each later one until unfollow is called. Errors: etcd's,
// etcdlog.ErrRemoved.
func (s *peerSecrets) follow(ctx context.Context, d directory.Directory, clusterID string, stored bool, learned func(string)) (unfollow func(), err error) {
	f := &followedSecret{directory: d, clusterID: clusterID, stored: stored, learned: learned}
	if err := f.learn(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.followed = append(slices.Clone(s.mu.followed), f) // rounds read the former slice
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.followed = slices.DeleteFunc(slices.Clone(s.mu.followed), func(other *followedSecret) bool { return other == f })
	}, nil
}

// learn asks etcd for the newest secret, and makes one if there is none. A purged virtual cluster, whose removal this replica has not read yet,
// gets none.
func (f *followedSecret) learn(ctx context.Context) error {
	if f.stored {
		if spec, _, err := f.directory.Get(ctx, f.clusterID); spec == nil && err == nil {
			return fmt.Errorf("%w: there is no key %s", etcdlog.ErrRemoved, f.directory.SpecKey(f.clusterID))
		}
	}
	secret, err := f.directory.PeerSecret(ctx, f.clusterID)
	if err != nil || secret == f.known {
		return err
	}
	f.known = secret
	f.learned(secret)
	return nil
}

// all returns the followed secrets.
func (s *peerSecrets) all() followedSecrets {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.followed
}

// reads returns the operation that reads the secrets that changed since the last comparison, and the number of all. It returns none if no secret is
// followed.
func (s *peerSecrets) reads(followed followedSecrets) []clientv3.Op {
	if len(followed) == 0 {
		return nil
	}
	return []clientv3.Op{clientv3.OpGet(
		followed[0].directory.PeerSecretPrefix(), clientv3.WithPrefix(), clientv3.WithSerializable(), clientv3.WithMinModRev(s.compared+1),
	)}
}

// compare takes the answer to reads, as of a revision. If a secret has changed, came or went, the next round compares all.
func (s *peerSecrets) compare(ctx context.Context, followed followedSecrets, found *clientv3.GetResponse, revision int64) error {
	switch {
	case s.compared == 0:
		if err := followed.compare(ctx, found.Kvs); err != nil {
			return err
		}
		s.compared, s.stored = revision, found.Count
	case len(found.Kvs) > 0 || found.Count != s.stored:
		s.compared = 0
	default:
		s.compared = revision
	}
	return nil
}

// compare learns the secrets that differ from the values in etcd.
func (followed followedSecrets) compare(ctx context.Context, stored []*mvccpb.KeyValue) error {
	values := make(map[string]string, len(stored))
	for _, kv := range stored {
		values[string(kv.Key)] = string(kv.Value)
	}
	var errs []error
	for _, f := range followed {
		if values[f.directory.PeerSecretKey(f.clusterID)] != f.known {
			if err := f.learn(ctx); !errors.Is(err, etcdlog.ErrRemoved) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
