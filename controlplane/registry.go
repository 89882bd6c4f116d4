package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// registration is a replica id and the address that its process advertises.
type registration struct{ id, address string }

// registry keeps this replica's address in etcd under a lease, and knows those of the others. Agents are told them,
// nothing is decided by them; and their versions, by which the states' rise.
type registry struct {
	client   *clientv3.Client
	prefix   string // of all replicas' keys, ends with a slash
	replica  string
	instance string // random, one per process
	address  string
	log      *zap.Logger
	replicas atomic.Pointer[[]registration] // registered ones at other addresses
	versions *versions
	key      *replicaKey
	secrets  peerSecrets
	known    chan struct{} // closed when the others' versions were read for the first time
	health   *etcdHealth
	lease    clientv3.LeaseID // of this replica's key; 0: it is to be registered
	rounds   int              // rounds in a row in which an earlier registration had this replica's id
	shared   int              // rounds in a row in which another replica advertised this one's address
}

// startPatience is the time after the start in which etcd may still be starting too.
const startPatience = 10 * time.Second

// rivalRounds is how many rounds the registration of a dead predecessor lasts at most: 30 s are its 10 s and two extensions by
// etcd, which renews all leases when its leader changes.
const rivalRounds = 15

// sameIDError is returned to the replica that came second of two with one id.
type sameIDError struct{ id, address string }

func (e *sameIDError) Error() string {
	return fmt.Sprintf("--replica-id %s is also the id of a running replica at %s: give each replica an id of its own", e.id, e.address)
}

// Replicas returns the addresses of the registered replicas, with this one's.
func (r *registry) Replicas() []string {
	addresses := []string{r.address}
	for _, other := range r.others() {
		addresses = append(addresses, other.address)
	}
	return addresses
}

// others returns the registered replicas at other addresses than this one's, as of the last answer of etcd.
func (r *registry) others() []registration {
	if known := r.replicas.Load(); known != nil {
		return *known
	}
	return nil
}

// replicaKey returns the key by which the other replicas know this one, "" before etcd's first answer.
func (r *registry) replicaKey() string { return r.key.get() }

// run registers until ctx ends, then takes the registration back. Error: sameIDError.
func (r *registry) run(ctx context.Context) error {
	began := time.Now()
	tick := time.NewTicker(readRegistry)
	defer tick.Stop()
	known := sync.OnceFunc(func() { close(r.known) })
	failing, warned := false, false
	for {
		err := r.round(ctx)
		var same *sameIDError
		switch {
		case err == nil:
			if away := r.health.succeeded(); away > 0 {
				r.log.Info("etcd answers again", zap.Duration("away", away))
			}
			known()
		case errors.As(err, &same):
			return errors.Join(same, r.leave())
		case ctx.Err() == nil:
			starting := r.health.failed(ctx, err)
			switch early := starting && time.Since(began) < startPatience; {
			case early && !failing:
				r.log.Info("waiting for etcd", zap.String("etcd", r.health.addresses()))
			case !early && !warned:
				r.log.Warn("etcd fails, and no virtual cluster has an owner without it", zap.Error(r.health.fault()))
				warned = true
			}
		}
		if failing = err != nil; failing {
			r.rounds = 0 // a change of etcd's leader prolongs a dead predecessor's registration
		}
		warned = warned && failing
		select {
		case <-ctx.Done():
			return r.leave()
		case <-tick.C:
		}
	}
}

func (r *registry) round(ctx context.Context) error {
	if err := r.renew(ctx); err != nil {
		return err
	}
	return errors.Join(r.read(ctx), r.versions.round(ctx))
}

// renew keeps the lease alive, or registers anew.
func (r *registry) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readRegistry)
	defer cancel()
	if r.lease != 0 {
		if _, err := r.client.KeepAliveOnce(ctx, r.lease); err == nil {
			return nil
		}
	}
	r.lease = 0
	granted, err := r.client.Grant(ctx, int64(registrationLife/time.Second))
	if err != nil {
		return fmt.Errorf("lease for the replica's address: %w", err)
	}
	if _, err := r.client.Put(ctx, r.ids()+r.instance, r.address, clientv3.WithLease(granted.ID)); err != nil {
		return fmt.Errorf("register the replica's address: %w", err)
	}
	r.lease = granted.ID
	return nil
}

// ids is where the keys of all processes with this replica's id begin. Each has a key of its own, so that none overwrites another.
func (r *registry) ids() string { return r.prefix + r.replica + "/" }

func (r *registry) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readRegistry)
	defer cancel()
	secrets := r.secrets.all()
	response, err := r.client.Txn(ctx).Then(append([]clientv3.Op{
		clientv3.OpGet(r.prefix, clientv3.WithPrefix(), clientv3.WithSerializable()), clientv3.OpGet(r.key.name, clientv3.WithSerializable()),
	}, secrets.reads()...)...).Commit()
	if err != nil {
		return fmt.Errorf("read the replicas' addresses: %w", err)
	}
	key := ""
	for _, kv := range response.Responses[1].GetResponseRange().Kvs {
		key = string(kv.Value)
	}
	if err := r.key.learn(ctx, key); err != nil {
		return err
	}
	if len(secrets) > 0 {
		if err := secrets.compare(ctx, response.Responses[2].GetResponseRange().Kvs); err != nil {
			return err
		}
	}
	registered := response.Responses[0].GetResponseRange().Kvs
	others := []registration{}
	for _, kv := range registered {
		id, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), r.prefix), "/")
		address := string(kv.Value)
		if address != r.address && !slices.ContainsFunc(others, func(o registration) bool { return o.address == address }) {
			others = append(others, registration{id, address})
		}
	}
	r.replicas.Store(&others)
	r.compareAddresses(registered)
	return r.compare(registered)
}

// compare looks for a process that registered this replica's id earlier. That of a predecessor ends with its lease. Error:
// sameIDError.
func (r *registry) compare(registered []*mvccpb.KeyValue) error {
	var own, first *mvccpb.KeyValue // first of those with this id
	for _, kv := range registered {
		instance, same := strings.CutPrefix(string(kv.Key), r.ids())
		if !same || strings.Contains(instance, "/") {
			continue
		}
		if instance == r.instance {
			own = kv
		}
		if first == nil || kv.CreateRevision < first.CreateRevision {
			first = kv
		}
	}
	if own == nil || own == first {
		r.rounds = 0
		return nil
	}
	if r.rounds++; r.rounds < rivalRounds {
		return nil
	}
	return &sameIDError{id: r.replica, address: string(first.Value)}
}

// compareAddresses logs once if another replica advertises this one's address in rivalRounds rounds in a row, because a connection
// may reach either of them. The registration of a dead predecessor with another id expires earlier.
func (r *registry) compareAddresses(registered []*mvccpb.KeyValue) {
	other := ""
	for _, kv := range registered {
		if id, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), r.prefix), "/"); string(kv.Value) == r.address && id != r.replica {
			other = id
		}
	}
	if other == "" {
		r.shared = 0
		return
	}
	if r.shared++; r.shared == rivalRounds {
		r.log.Warn("another replica advertises the same address: set --advertise of each replica to its own",
			zap.String("advertise", r.address), zap.String("other_replica", other))
	}
}

func (r *registry) leave() error {
	if r.lease == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), readRegistry)
	defer cancel()
	if _, err := r.client.Revoke(ctx, r.lease); err != nil {
		r.log.Info("replica's address is left to its lease", zap.Error(err))
	}
	return nil
}
