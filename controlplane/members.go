package controlplane

import (
	"cmp"
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

	"github.com/freshet-io/freshet/metadata/metalog"
)

// member is a replica ID with the addresses that its process advertises: to replicas, and to agents ("" for the same one).
type member struct {
	id, address, public string
	registration        int64 // create revision of the process's key, 0 for this replica
}

// agents returns the address for agents.
func (m *member) agents() string { return cmp.Or(m.public, m.address) }

// parseMember returns the member of a key under prefix. The value is one address, or two with a space between them.
func parseMember(prefix string, kv *mvccpb.KeyValue) member {
	m := member{registration: kv.CreateRevision}
	m.id, _, _ = strings.Cut(strings.TrimPrefix(string(kv.Key), prefix), "/")
	m.address, m.public, _ = strings.Cut(string(kv.Value), " ")
	return m
}

// members keeps this replica's address in etcd under the replica's lease, and reads the addresses of the other replicas, for agents and
// operators. It keeps and reads the replicas' versions too, which bound the versions of the states.
type members struct {
	client   *clientv3.Client
	prefix   string // of all replicas' keys, ends with a slash
	replica  string
	instance string // random, one per process
	address  string
	public   string // address for agents, "" for address
	log      *zap.Logger
	replicas atomic.Pointer[[]member] // registered ones at other addresses
	versions *versions
	key      *replicaKey
	secrets  peerSecrets
	known    chan struct{} // closed when the others' versions were read for the first time
	health   *etcdHealth
	lease    *metalog.Lease // of this replica
	under    *metalog.Grant // the grant that holds this replica's key, nil before the first registration
	rivals   int            // rivalRounds of the lease's term
	rounds   int            // rounds in a row in which an earlier registration had this replica's id
	shared   int            // rounds in a row in which another replica advertised this one's address
}

// startPatience is the time after the start in which etcd may still be starting too.
const startPatience = 10 * time.Second

// rivalRounds returns one more than the rounds in which the key of a dead predecessor is seen at most: for its lease and two extensions
// by etcd, which renews all leases when its leader changes.
func rivalRounds(lease time.Duration) int { return int((3*lease+readMembers-1)/readMembers) + 1 }

// sameIDError is returned to the replica that came second of two with one id.
type sameIDError struct{ id, address string }

func (e *sameIDError) Error() string {
	return fmt.Sprintf("--replica-id %s is also the id of a running replica at %s: give each replica an id of its own", e.id, e.address)
}

// self returns this replica as a member.
func (m *members) self() member { return member{id: m.replica, address: m.address, public: m.public} }

// Replicas returns the addresses for agents of the registered replicas, with this one's.
func (m *members) Replicas() []string {
	own := m.self()
	addresses := []string{own.agents()}
	for _, other := range m.others() {
		addresses = append(addresses, other.agents())
	}
	return addresses
}

// forAgents returns the address for agents of the replica with an id, which advertises address to replicas. If agents reach this replica by a
// public address, it returns "" for a replica that is not known yet: they could not reach the other address.
func (m *members) forAgents(id, address string) string {
	for _, known := range append(m.others(), m.self()) {
		if known.id == id && known.address == address {
			return known.agents()
		}
	}
	if m.public != "" {
		return ""
	}
	return address
}

// others returns the registered replicas at other addresses than this one's, as of the last answer of etcd.
func (m *members) others() []member {
	if known := m.replicas.Load(); known != nil {
		return *known
	}
	return nil
}

// replicaKey returns the key by which the other replicas know this one, "" before etcd's first answer.
func (m *members) replicaKey() string { return m.key.get() }

// run keeps this replica registered until ctx ends, then leaves. Error: sameIDError.
func (m *members) run(ctx context.Context) error {
	began := time.Now()
	tick := time.NewTicker(readMembers)
	defer tick.Stop()
	known := sync.OnceFunc(func() { close(m.known) })
	failing, warned := false, false
	for {
		err := m.round(ctx)
		var same *sameIDError
		switch {
		case err == nil:
			if away := m.health.succeeded(); away > 0 {
				m.log.Info("etcd answers again", zap.Duration("away", away))
			}
			known()
		case errors.As(err, &same):
			return errors.Join(same, m.leave())
		case ctx.Err() == nil:
			starting := m.health.failed(ctx, err)
			switch early := starting && time.Since(began) < startPatience; {
			case early && !failing:
				m.log.Info("waiting for etcd", zap.String("etcd", m.health.addresses()))
			case !early && !warned:
				m.log.Warn("etcd fails, and no virtual cluster has an owner without it", zap.Error(m.health.fault()))
				warned = true
			}
		}
		if failing = err != nil; failing {
			m.rounds = 0 // a change of etcd's leader prolongs a dead predecessor's registration
		}
		warned = warned && failing
		select {
		case <-ctx.Done():
			return m.leave()
		case <-tick.C:
		}
	}
}

func (m *members) round(ctx context.Context) error {
	if err := m.register(ctx); err != nil {
		return err
	}
	return errors.Join(m.read(ctx), m.versions.round(ctx))
}

// register puts this replica's address under the replica's lease, once for each grant.
func (m *members) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readMembers)
	defer cancel()
	granted, err := m.lease.Granted(ctx)
	if err != nil || granted == m.under {
		return err
	}
	value := m.address
	if m.public != "" {
		value += " " + m.public
	}
	if _, err := m.client.Put(ctx, m.ids()+m.instance, value, clientv3.WithLease(clientv3.LeaseID(granted.ID()))); err != nil {
		return fmt.Errorf("register the replica's address: %w", err)
	}
	m.under = granted
	return nil
}

// ids is where the keys of all processes with this replica's id begin. Each has a key of its own, so that none overwrites another.
func (m *members) ids() string { return m.prefix + m.replica + "/" }

func (m *members) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readMembers)
	defer cancel()
	secrets := m.secrets.all()
	response, err := m.client.Txn(ctx).Then(append([]clientv3.Op{
		clientv3.OpGet(m.prefix, clientv3.WithPrefix(), clientv3.WithSerializable()), clientv3.OpGet(m.key.name, clientv3.WithSerializable()),
	}, m.secrets.reads(secrets)...)...).Commit()
	if err != nil {
		return fmt.Errorf("read the replicas' addresses: %w", err)
	}
	key := ""
	for _, kv := range response.Responses[1].GetResponseRange().Kvs {
		key = string(kv.Value)
	}
	if err := m.key.learn(ctx, key); err != nil {
		return err
	}
	if len(secrets) > 0 {
		found := (*clientv3.GetResponse)(response.Responses[2].GetResponseRange())
		if err := m.secrets.compare(ctx, secrets, found, response.Header.Revision); err != nil {
			return err
		}
	}
	registered := response.Responses[0].GetResponseRange().Kvs
	others := []member{}
	for _, kv := range registered {
		found := parseMember(m.prefix, kv)
		if found.address != m.address && !slices.ContainsFunc(others, func(o member) bool { return o.address == found.address }) {
			others = append(others, found)
		}
	}
	m.replicas.Store(&others)
	m.compareAddresses(registered)
	return m.compare(registered)
}

// compare looks for a process that registered this replica's id earlier. That of a predecessor ends with its lease. Error:
// sameIDError.
func (m *members) compare(registered []*mvccpb.KeyValue) error {
	var own, first *mvccpb.KeyValue // first of those with this id
	for _, kv := range registered {
		instance, same := strings.CutPrefix(string(kv.Key), m.ids())
		if !same || strings.Contains(instance, "/") {
			continue
		}
		if instance == m.instance {
			own = kv
		}
		if first == nil || kv.CreateRevision < first.CreateRevision {
			first = kv
		}
	}
	if own == nil { // removed by hand, or not in this member of etcd yet
		m.under = nil
	}
	if own == nil || own == first {
		m.rounds = 0
		return nil
	}
	if m.rounds++; m.rounds < m.rivals {
		return nil
	}
	return &sameIDError{id: m.replica, address: parseMember(m.prefix, first).address}
}

// compareAddresses logs once if another replica advertises this one's address in rivals rounds in a row, because a connection
// may reach either of them. The registration of a dead predecessor with another id expires earlier.
func (m *members) compareAddresses(registered []*mvccpb.KeyValue) {
	other := ""
	for _, kv := range registered {
		if found := parseMember(m.prefix, kv); found.address == m.address && found.id != m.replica {
			other = found.id
		}
	}
	if other == "" {
		m.shared = 0
		return
	}
	if m.shared++; m.shared == m.rivals {
		m.log.Warn("another replica advertises the same address: set --advertise of each replica to its own",
			zap.String("advertise", m.address), zap.String("other_replica", other))
	}
}

// leave removes this replica's key. If that fails, the end of the lease removes the key.
func (m *members) leave() error {
	if m.under == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), readMembers)
	defer cancel()
	if _, err := m.client.Delete(ctx, m.ids()+m.instance); err != nil {
		m.log.Info("replica's address is left to its lease", zap.Error(err))
	}
	return nil
}
