package etcdlog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/freshet-io/freshet/metadata/metalog"
)

// ownersPage is the number of ownership keys of one read, each of some 150 bytes.
const ownersPage = 5000

func (l leases) Owners(ctx context.Context) (metalog.OwnerKeys, error) {
	var keys metalog.OwnerKeys
	from, end := l.owners, clientv3.GetPrefixRangeEnd(l.owners)
	for {
		resp, err := l.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(ownersPage), clientv3.WithRev(keys.Revision))
		if err != nil {
			return metalog.OwnerKeys{}, err
		}
		if keys.Revision == 0 { // all pages are of the first one's revision
			keys.Point = pointOf(resp.Header)
		}
		for _, kv := range resp.Kvs {
			keys.Keys = append(keys.Keys, ownerKey(kv))
		}
		if !resp.More {
			return keys, nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

// ownerKey returns an ownership key as the watch shows it. The owner of a malformed key has a tenure alone: Status returns the fault.
func ownerKey(kv *mvccpb.KeyValue) metalog.OwnerKey {
	owner, err := decodeOwner(kv)
	if err != nil {
		owner = metalog.OwnerRecord{Tenure: kv.CreateRevision}
	}
	return metalog.OwnerKey{Name: string(kv.Key), Owner: owner}
}

// WatchOwners reports the revision of the last event of each response, since etcd answers a watch that has fallen behind with events in several
// responses, each with the newest revision in its header. The revision in a progress notification is one that the watch has reached (etcd issue
// 15220).
func (l leases) WatchOwners(ctx context.Context, after int64, update func(metalog.OwnerKeys)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the client ends the watch with its context
	for resp := range l.client.Watch(l.watching(ctx), l.owners, clientv3.WithPrefix(), clientv3.WithRev(after+1)) {
		if err := resp.Err(); err != nil {
			return fmt.Errorf("watch ownership keys: %w", err)
		}
		var keys metalog.OwnerKeys
		for _, e := range resp.Events {
			k := ownerKey(e.Kv)
			if e.Type == mvccpb.DELETE {
				k.Owner = metalog.OwnerRecord{}
			}
			keys.Keys, keys.Revision = append(keys.Keys, k), e.Kv.ModRevision
		}
		if resp.IsProgressNotify() {
			keys.Revision = resp.Header.Revision
		}
		update(keys)
	}
	return errors.Join(errors.New("etcd ended the watch of ownership keys"), ctx.Err())
}

func (l leases) Now(ctx context.Context) (metalog.Point, error) {
	resp, err := l.client.Get(ctx, strings.TrimSuffix(l.owners, "/"), clientv3.WithKeysOnly()) // an absent key
	if err != nil {
		return metalog.Point{}, err
	}
	return pointOf(resp.Header), l.client.RequestProgress(l.watching(ctx))
}

func pointOf(h *etcdserverpb.ResponseHeader) metalog.Point {
	return metalog.Point{Revision: h.Revision, History: h.ClusterId}
}

// watching returns the context of watches of ownership keys. Its stream ends at a member without a leader, and is of no other watch.
func (leases) watching(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(clientv3.WithRequireLeader(ctx), "freshet-watch", "owners")
}

func (l leases) Disown(ctx context.Context, name string, tenure int64) error {
	_, err := l.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(name), "=", tenure)).
		Then(clientv3.OpDelete(name)).
		Commit()
	return err
}
