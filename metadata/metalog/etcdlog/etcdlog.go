// Package etcdlog is the metadata log over etcd: the transactions of metalog.Store, and the upkeep of the etcd
// cluster they run on (Maintainer). Keys, all but the first under <prefix>/<cluster id>/:
//
//	<prefix>/+owners/<cluster id>
//	           JSON of metalog.OwnerRecord, under the lease of the owner's process; its create revision is the tenure
//	tail       index and total of the last entry (metalog.EncodeTail); absent while the log is empty
//	log/<i>    entry i, 16 hex digits (metalog.EncodeRecord)
//	snapshots  JSON list of metalog.SnapshotRef, newest first, at most two
package etcdlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
)

// DefaultPrefix is where all keys of Freshet begin.
const DefaultPrefix = "/freshet/v1"

// Config names a virtual cluster's log in etcd.
type Config struct {
	Client    *clientv3.Client // not closed by the log
	Prefix    string           // default DefaultPrefix; without a slash at its end
	ClusterID string           // 1 to 249 characters of a-z A-Z 0-9 . _ -
	// Needs is a key in etcd without which Log.Acquire fails with ErrRemoved, "" for none. Removing it with all keys of a log that has no owner
	// is final: a replica that does not know of the removal yet leaves no new keys behind.
	Needs string
	Log   metalog.Config
}

// ErrRemoved is returned by Log.Acquire if Config.Needs does not exist. Before, Acquire repeats the claim for Timing.Read.
var ErrRemoved = errors.New("the virtual cluster was removed from etcd")

// ApplyDefaults sets the fields that are zero.
func (c *Config) ApplyDefaults() {
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
}

// Validate tells every fault.
func (c *Config) Validate() error {
	var errs []error
	if c.Client == nil {
		errs = append(errs, errors.New("no etcd client"))
	}
	if !strings.HasPrefix(c.Prefix, "/") || strings.HasSuffix(c.Prefix, "/") {
		errs = append(errs, fmt.Errorf("prefix %q: must begin and must not end with a slash", c.Prefix))
	}
	if !id.ValidVirtualCluster(c.ClusterID) {
		errs = append(errs, fmt.Errorf("cluster id %q: must be 1 to 249 of a-z A-Z 0-9 . _ -", c.ClusterID))
	}
	return errors.Join(errs...)
}

// Open gives a virtual cluster's log. It starts nothing and asks nothing.
func Open(cfg Config) (metalog.Log, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("metadata log in etcd: %w", err)
	}
	k := keysOf(cfg.Prefix, cfg.ClusterID)
	k.needed = cfg.Needs
	return metalog.New(newStore(cfg.Client, k), cfg.Log)
}

// keys of one virtual cluster.
type keys struct {
	owner, tail, snapshots, log string
	former                      string // the ownership key of programs of generation 2
	needed                      string // Config.Needs
}

func keysOf(prefix, cluster string) keys {
	base := prefix + "/" + cluster + "/"
	return keys{owner: ownersPrefix(prefix) + cluster, tail: base + "tail", snapshots: base + "snapshots", log: base + "log/", former: base + "owner"}
}

// ownersPrefix is where the ownership keys of all virtual clusters begin. No cluster id begins with a plus.
func ownersPrefix(prefix string) string { return prefix + "/+owners/" }

func (k *keys) entry(index uint64) string { return fmt.Sprintf("%s%016x", k.log, index) }

// store is the transactions of metalog.Store over etcd.
type store struct {
	client *clientv3.Client
	keys   keys
}

var _ metalog.Store = (*store)(nil)

func newStore(client *clientv3.Client, k keys) *store { return &store{client: client, keys: k} }

func (s *store) OwnerKey() string { return s.keys.owner }

func (s *store) View(ctx context.Context) (metalog.View, error) {
	resp, err := s.client.Txn(ctx).Then(clientv3.OpGet(s.keys.owner), clientv3.OpGet(s.keys.tail)).Commit()
	if err != nil {
		return metalog.View{}, err
	}
	v := metalog.View{Revision: resp.Header.Revision}
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		v.Owned = true
		if v.Owner, err = decodeOwner(kvs[0]); err != nil {
			return metalog.View{}, err
		}
	}
	v.Tail, err = decodeTail(resp.Responses[1].GetResponseRange().Kvs)
	return v, err
}

func (s *store) Claim(
	ctx context.Context, lease metalog.LeaseID, claim metalog.OwnerRecord,
) (metalog.OwnerRecord, error) {
	value, err := json.Marshal(claim)
	if err != nil {
		return metalog.OwnerRecord{}, fmt.Errorf("encode owner: %w", err)
	}
	absent := func(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), "=", 0) }
	cmps := []clientv3.Cmp{absent(s.keys.owner), absent(s.keys.former)}
	if s.keys.needed != "" {
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(s.keys.needed), ">", 0))
	}
	resp, err := s.client.Txn(ctx).
		If(cmps...).
		Then(clientv3.OpPut(s.keys.owner, string(value), clientv3.WithLease(clientv3.LeaseID(lease)))).
		Else(clientv3.OpGet(s.keys.owner), clientv3.OpGet(s.keys.former)).
		Commit()
	if err != nil {
		return metalog.OwnerRecord{}, leaseError(err)
	}
	if resp.Succeeded {
		claim.Tenure, claim.Lease = resp.Header.Revision, lease
		return claim, nil
	}
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		return decodeOwner(kvs[0])
	}
	for _, former := range resp.Responses[1].GetResponseRange().Kvs {
		return metalog.OwnerRecord{}, fmt.Errorf("waiting for a control plane of an older program that owns the virtual cluster: stop it; its key is %s with the value %.300s",
			former.Key, former.Value)
	}
	return metalog.OwnerRecord{}, fmt.Errorf("%w: there is no key %s", ErrRemoved, s.keys.needed)
}

func (s *store) owns(tenure int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(s.keys.owner), "=", tenure)
}

func (s *store) tailIs(t metalog.Tail) clientv3.Cmp {
	if t.Index == 0 {
		return clientv3.Compare(clientv3.CreateRevision(s.keys.tail), "=", 0)
	}
	return clientv3.Compare(clientv3.Value(s.keys.tail), "=", metalog.EncodeTail(t))
}

func (s *store) Append(
	ctx context.Context, tenure int64, tail metalog.Tail, rec *metalog.Record,
) (bool, *metalog.Record, error) {
	key := s.keys.entry(rec.Index)
	next := metalog.Tail{Index: rec.Index, Total: rec.Total}
	resp, err := s.client.Txn(ctx).
		If(s.owns(tenure), s.tailIs(tail)).
		Then(clientv3.OpPut(key, string(metalog.EncodeRecord(rec))), clientv3.OpPut(s.keys.tail, metalog.EncodeTail(next))).
		Else(clientv3.OpGet(key)).
		Commit()
	if err != nil {
		return false, nil, err
	}
	if resp.Succeeded {
		return true, nil, nil
	}
	kvs := resp.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return false, nil, nil
	}
	existing, err := s.decodeEntry(kvs[0])
	return false, &existing, err
}

func (s *store) Range(ctx context.Context, from uint64, limit int) ([]metalog.Record, metalog.Tail, error) {
	end := clientv3.GetPrefixRangeEnd(s.keys.log)
	resp, err := s.client.Txn(ctx).Then(
		clientv3.OpGet(s.keys.tail),
		clientv3.OpGet(s.keys.entry(from), clientv3.WithRange(end), clientv3.WithLimit(int64(limit))),
	).Commit()
	if err != nil {
		return nil, metalog.Tail{}, err
	}
	tail, err := decodeTail(resp.Responses[0].GetResponseRange().Kvs)
	if err != nil {
		return nil, metalog.Tail{}, err
	}
	kvs := resp.Responses[1].GetResponseRange().Kvs
	recs := make([]metalog.Record, len(kvs))
	for i, kv := range kvs {
		if recs[i], err = s.decodeEntry(kv); err != nil {
			return nil, metalog.Tail{}, err
		}
	}
	return recs, tail, nil
}

func (s *store) Delete(ctx context.Context, tenure int64, from, to uint64) (bool, error) {
	resp, err := s.client.Txn(ctx).
		If(s.owns(tenure)).
		Then(clientv3.OpDelete(s.keys.entry(from), clientv3.WithRange(s.keys.entry(to)))).
		Commit()
	if err != nil {
		return false, err
	}
	return resp.Succeeded, nil
}

func (s *store) SetSnapshots(ctx context.Context, tenure, revision int64, refs []metalog.SnapshotRef) (bool, error) {
	value, err := json.Marshal(refs)
	if err != nil {
		return false, fmt.Errorf("encode snapshot pointers: %w", err)
	}
	resp, err := s.client.Txn(ctx).
		If(s.owns(tenure), clientv3.Compare(clientv3.ModRevision(s.keys.snapshots), "=", revision)).
		Then(clientv3.OpPut(s.keys.snapshots, string(value))).
		Else(clientv3.OpGet(s.keys.owner, clientv3.WithKeysOnly())).
		Commit()
	if err != nil || resp.Succeeded {
		return err == nil, err
	}
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 && kvs[0].CreateRevision == tenure {
		return false, metalog.ErrMoved
	}
	return false, nil
}

func (s *store) Snapshots(ctx context.Context) (metalog.Pointers, error) {
	resp, err := s.client.Get(ctx, s.keys.snapshots)
	if err != nil || len(resp.Kvs) == 0 {
		return metalog.Pointers{}, err
	}
	refs, err := decodeSnapshots(resp.Kvs[0])
	return metalog.Pointers{Refs: refs, Revision: resp.Kvs[0].ModRevision}, err
}

// decodeOwner reads the ownership key. A key that is malformed or has no lease was put by hand. It keeps every replica from
// owning until an operator removes it. It is not ErrCorrupt, since the log may be intact.
func decodeOwner(kv *mvccpb.KeyValue) (metalog.OwnerRecord, error) {
	var o metalog.OwnerRecord
	if err := json.Unmarshal(kv.Value, &o); err != nil {
		return o, fmt.Errorf("malformed ownership key, remove it (etcdctl del %s): %w", kv.Key, err)
	}
	if kv.Lease == 0 {
		return o, fmt.Errorf("ownership key without a lease, remove it (etcdctl del %s)", kv.Key)
	}
	o.Tenure, o.Lease = kv.CreateRevision, metalog.LeaseID(kv.Lease)
	return o, nil
}

func decodeTail(kvs []*mvccpb.KeyValue) (metalog.Tail, error) {
	if len(kvs) == 0 {
		return metalog.Tail{}, nil
	}
	t, err := metalog.DecodeTail(string(kvs[0].Value))
	if err != nil {
		return t, fmt.Errorf("%s: %w", kvs[0].Key, err)
	}
	return t, nil
}

func decodeSnapshots(kv *mvccpb.KeyValue) ([]metalog.SnapshotRef, error) {
	var refs []metalog.SnapshotRef
	if err := json.Unmarshal(kv.Value, &refs); err != nil {
		return nil, fmt.Errorf("%w: snapshot pointers %s: %w", metalog.ErrCorrupt, kv.Key, err)
	}
	return refs, nil
}

func (s *store) decodeEntry(kv *mvccpb.KeyValue) (metalog.Record, error) {
	var index uint64
	digits := strings.TrimPrefix(string(kv.Key), s.keys.log)
	if _, err := fmt.Sscanf(digits, "%016x", &index); err != nil {
		return metalog.Record{}, fmt.Errorf("%w: log key %q: %w", metalog.ErrCorrupt, kv.Key, err)
	}
	rec, err := metalog.DecodeRecord(index, kv.Value)
	if err != nil {
		return rec, fmt.Errorf("%s: %w", kv.Key, err)
	}
	return rec, nil
}
