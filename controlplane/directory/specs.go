package directory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/generation"
)

var (
	// ErrNameTaken is returned for the name or id of another virtual cluster.
	ErrNameTaken = errors.New("another virtual cluster has this name or id")
	// ErrChanged is returned if the Spec in etcd is not the one that the caller read.
	ErrChanged = errors.New("the description of the virtual cluster has changed: read it again")
)

func (d Directory) specPrefix() string { return d.Prefix + "/+specs/" }

// SpecKey returns the key of a Spec.
func (d Directory) SpecKey(clusterID string) string { return d.specPrefix() + clusterID }

// Create stores the Spec of a new virtual cluster, with its name, if further comparisons hold. Errors: ErrSpec, generation.ErrOther, etcd's, ErrNameTaken
// also if a further comparison does not hold.
func (d Directory) Create(ctx context.Context, s *Spec, further ...clientv3.Cmp) error {
	value, err := s.encode()
	if err != nil {
		return err
	}
	resp, err := d.Client.Txn(ctx).
		If(append(further,
			clientv3.Compare(clientv3.CreateRevision(d.SpecKey(s.ID)), "=", 0),
			clientv3.Compare(clientv3.CreateRevision(d.key(s.Name)), "=", 0),
			clientv3.Compare(clientv3.CreateRevision(d.earlier(s.Name)), "=", 0),
		)...).
		Then(clientv3.OpPut(d.SpecKey(s.ID), string(value)), clientv3.OpPut(d.key(s.Name), s.ID)).
		Else(clientv3.OpGet(d.earlier(s.Name), clientv3.WithKeysOnly())).
		Commit()
	switch {
	case err != nil:
		return fmt.Errorf("store virtual cluster %s in etcd: %w", s.Name, err)
	case resp.Succeeded:
		return nil
	case len(resp.Responses[0].GetResponseRange().Kvs) > 0:
		return fmt.Errorf("%s: %w", d.earlier(s.Name), generation.ErrOther)
	}
	return fmt.Errorf("%w: %s", ErrNameTaken, s.Name)
}

// Get returns the Spec of a cluster id with its revision, or nil if there is none. Errors: ErrSpec, ErrNewer, etcd's.
func (d Directory) Get(ctx context.Context, clusterID string) (s *Spec, revision int64, err error) {
	resp, err := d.Client.Get(ctx, d.SpecKey(clusterID))
	if err != nil {
		return nil, 0, fmt.Errorf("read virtual cluster %s in etcd: %w", clusterID, err)
	}
	if len(resp.Kvs) == 0 {
		return nil, 0, nil
	}
	s, err = decode(clusterID, resp.Kvs[0].Value)
	return s, resp.Kvs[0].ModRevision, err
}

// Update replaces a Spec whose revision Get returned, if further comparisons hold. The name stays. Errors: ErrSpec, etcd's, ErrChanged also if a further
// comparison does not hold.
func (d Directory) Update(ctx context.Context, s *Spec, revision int64, further ...clientv3.Cmp) error {
	cmps, put, err := d.Replacement(s, revision)
	if err != nil {
		return err
	}
	resp, err := d.Client.Txn(ctx).If(append(further, cmps...)...).Then(put).Commit()
	switch {
	case err != nil:
		return fmt.Errorf("store virtual cluster %s in etcd: %w", s.Name, err)
	case !resp.Succeeded:
		return fmt.Errorf("%w: %s", ErrChanged, s.Name)
	}
	return nil
}

// Replacement returns the comparisons and the operation of Update, as a part of a transaction. Error: ErrSpec.
func (d Directory) Replacement(s *Spec, revision int64) (cmps []clientv3.Cmp, put clientv3.Op, err error) {
	value, err := s.encode()
	if err != nil {
		return nil, put, err
	}
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(d.SpecKey(s.ID)), "=", revision),
		clientv3.Compare(clientv3.Value(d.key(s.Name)), "=", s.ID),
	}, clientv3.OpPut(d.SpecKey(s.ID), string(value)), nil
}

// Removal removes a virtual cluster from etcd, as a part of a transaction.
type Removal struct {
	Cmps []clientv3.Cmp
	Ops  []clientv3.Op
}

// ownerKey returns the key that the replica has which owns a virtual cluster. Package etcdlog writes it.
func (d Directory) ownerKey(clusterID string) string { return d.Prefix + "/+owners/" + clusterID }

// Owned reports whether a replica owns a virtual cluster. A replica leaves a deleted one by itself. Error: etcd's.
func (d Directory) Owned(ctx context.Context, clusterID string) (bool, error) {
	resp, err := d.Client.Get(ctx, d.ownerKey(clusterID), clientv3.WithCountOnly())
	if err != nil {
		return false, fmt.Errorf("look for the owner of virtual cluster %s in etcd: %w", clusterID, err)
	}
	return resp.Count > 0, nil
}

// Removal returns the removal of a virtual cluster whose Spec has a revision, 0 for none: its Spec, name, peer secret and metadata log. It needs a virtual
// cluster without an owner. Objects in buckets stay.
func (d Directory) Removal(clusterID, name string, revision int64) Removal {
	return Removal{
		Cmps: []clientv3.Cmp{
			clientv3.Compare(clientv3.ModRevision(d.SpecKey(clusterID)), "=", revision),
			clientv3.Compare(clientv3.CreateRevision(d.ownerKey(clusterID)), "=", 0),
		},
		Ops: []clientv3.Op{
			clientv3.OpDelete(d.SpecKey(clusterID)), clientv3.OpDelete(d.key(name)), clientv3.OpDelete(d.PeerSecretKey(clusterID)),
			clientv3.OpDelete(d.Prefix+"/"+clusterID+"/", clientv3.WithPrefix()),
		},
	}
}

// Change is a new Spec of a cluster id. Exactly one of Spec and Fault is set, or none if the Spec was removed.
type Change struct {
	ID      string // the end of the key in etcd, which may be no cluster id
	Created int64  // etcd's revision at which the Spec was created, 0 if it was removed
	Spec    *Spec
	Fault   error // ErrSpec or ErrNewer, with the key
}

// Bounds of Watch.
const (
	listPage     = 500 // Specs of one read, 32 MiB at most
	watchPause   = 500 * time.Millisecond
	maxWatchWait = 5 * time.Second
)

// watcher follows all Specs in etcd.
type watcher struct {
	Directory
	apply func([]Change)
	known map[string]int64 // revision of each Spec by id, as of the last apply; nil before the first
}

// Watch calls apply with the Specs of all virtual clusters, and then with their changes in order, until ctx ends. The first call may have no
// Spec. A later call can repeat a state that apply knows already. If etcd fails, Watch logs the first error and tries again, with pauses of up
// to 5 s. Removed Specs are found then too.
func (d Directory) Watch(ctx context.Context, log *zap.Logger, apply func([]Change)) {
	w := &watcher{Directory: d, apply: apply}
	wait, failing := watchPause, false
	for {
		followed, err := w.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if followed {
			wait, failing = watchPause, false
		}
		if !failing {
			log.Warn("virtual clusters in etcd cannot be followed, the known ones go on", zap.String("prefix", d.specPrefix()), zap.Error(err))
			failing = true
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, maxWatchWait)
	}
}

// follow lists all Specs and watches them until etcd fails. followed reports whether the list was read.
func (w *watcher) follow(ctx context.Context) (followed bool, err error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx)) // a member without a leader ends the watch
	defer cancel()
	revision, err := w.list(ctx)
	if err != nil {
		return false, fmt.Errorf("list virtual clusters: %w", err)
	}
	for resp := range w.Client.Watch(ctx, w.specPrefix(), clientv3.WithPrefix(), clientv3.WithRev(revision+1)) {
		if err := resp.Err(); err != nil {
			return true, fmt.Errorf("watch virtual clusters: %w", err)
		}
		var changes []Change
		for _, e := range resp.Events {
			c := w.change(e.Kv)
			if w.known[c.ID] = e.Kv.ModRevision; e.Type == mvccpb.DELETE {
				c = Change{ID: c.ID}
				delete(w.known, c.ID)
			}
			changes = append(changes, c)
		}
		if len(changes) > 0 {
			w.apply(changes)
		}
	}
	return true, errors.New("watch virtual clusters: etcd ended the watch")
}

// list applies the difference between the known Specs and those in etcd, and returns the revision of the latter.
func (w *watcher) list(ctx context.Context) (revision int64, err error) {
	var changes, removals []Change
	next := map[string]int64{}
	from, end := w.specPrefix(), clientv3.GetPrefixRangeEnd(w.specPrefix())
	for {
		resp, err := w.Client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(listPage), clientv3.WithRev(revision))
		if err != nil {
			return 0, err
		}
		if revision == 0 { // all pages are of the first one's revision
			revision = resp.Header.Revision
		}
		for _, kv := range resp.Kvs {
			c := w.change(kv)
			if next[c.ID] = kv.ModRevision; w.known[c.ID] != kv.ModRevision {
				changes = append(changes, c)
			}
		}
		if !resp.More {
			break
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
	for clusterID := range w.known {
		if _, ok := next[clusterID]; !ok {
			removals = append(removals, Change{ID: clusterID})
		}
	}
	if changes = append(removals, changes...); w.known == nil || len(changes) > 0 {
		w.apply(changes)
	}
	w.known = next
	return revision, nil
}

// change returns the change to a key's value.
func (w *watcher) change(kv *mvccpb.KeyValue) Change {
	c := Change{ID: strings.TrimPrefix(string(kv.Key), w.specPrefix()), Created: kv.CreateRevision}
	if c.Spec, c.Fault = decode(c.ID, kv.Value); c.Fault != nil {
		c.Fault = fmt.Errorf("etcd key %.300q: %w", kv.Key, c.Fault)
	}
	return c
}
