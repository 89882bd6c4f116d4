// Package memlog is the metadata log in memory: the transactions of metalog.Store over a few maps, shared by the
// replicas of one test, with a clock that may be synctest's, and faults by replica: requests lost, answers lost,
// requests held back and delivered late, a replica cut off.
package memlog

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/freshet-io/freshet/metadata/metalog"
)

// Store is one virtual cluster's log in memory. Replicas reach it through Connect.
type Store struct {
	key string // name of the ownership key

	mu struct {
		*server
		owner     *metalog.OwnerRecord
		tail      metalog.Tail
		log       map[uint64][]byte // encoded records
		snapshots metalog.Pointers
	}
}

// server has the leases and the ownership keys of all logs in one memory. Its mutex guards these logs too.
type server struct {
	sync.Mutex
	history   uint64
	revision  int64
	stores    []*Store
	leases    map[metalog.LeaseID]*lease
	lastLease metalog.LeaseID
	changes   []change      // of ownership keys
	progress  int64         // revision of the newest OpNow
	changed   chan struct{} // closed when changes or progress change, then replaced
}

type change struct {
	metalog.OwnerKey
	revision int64
}

type lease struct {
	ttl      time.Duration
	deadline time.Time
}

// New returns an empty log.
func New() *Store {
	return on(&server{leases: map[metalog.LeaseID]*lease{}, changed: make(chan struct{})})
}

// Another returns the empty log of another virtual cluster. A lease holds the ownership of both logs.
func (s *Store) Another() *Store { return on(s.mu.server) }

func on(srv *server) *Store {
	srv.Lock()
	defer srv.Unlock()
	s := &Store{key: fmt.Sprintf("owner of %d", len(srv.stores))}
	srv.stores = append(srv.stores, s)
	s.mu.server = srv
	s.mu.log = map[uint64][]byte{}
	return s
}

// ExpireLeases lets every lease run out now, as if the replicas had been silent for the lease's term.
func (s *Store) ExpireLeases() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.mu.leases)
	s.mu.expire()
}

// RemoveOwner removes the ownership key, as an operator does by hand.
func (s *Store) RemoveOwner() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own(nil)
}

// Lose drops every entry after index, as a store restored from an old backup does.
func (s *Store) Lose(index uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := index + 1; i <= s.mu.tail.Index; i++ {
		delete(s.mu.log, i)
	}
	s.mu.tail = metalog.Tail{Index: index}
}

// Restore puts the store back to the ownership keys as they are now, without those of tenures after a revision, as a backup of that revision
// does. The revision rises by bump.
func (s *Store) Restore(revision, bump int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.mu.stores {
		if other.mu.owner != nil && other.mu.owner.Tenure > revision {
			other.mu.owner = nil
		}
	}
	s.mu.changes = slices.DeleteFunc(s.mu.changes, func(c change) bool { return c.revision > revision })
	s.mu.revision = revision + bump
	s.mu.progress = min(s.mu.progress, s.mu.revision)
}

// NewHistory changes the id of the store's history, as most restores of a backup do.
func (s *Store) NewHistory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.history++
}

// Corrupt flips one bit of the entry's payload.
func (s *Store) Corrupt(index uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := slices.Clone(s.mu.log[index])
	p[len(p)-1] ^= 1
	s.mu.log[index] = p
}

// Indexes gives the first and the last index that the log holds; 0, 0 when it holds none.
func (s *Store) Indexes() (first, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.mu.log {
		if first == 0 || i < first {
			first = i
		}
		last = max(last, i)
	}
	return first, last
}

// expire removes leases that ran out, and the ownership keys under leases that are gone. Called with the mutex held.
func (srv *server) expire() {
	now := time.Now()
	for id, l := range srv.leases {
		if !now.Before(l.deadline) {
			delete(srv.leases, id)
		}
	}
	for _, s := range srv.stores {
		if s.mu.owner != nil && srv.leases[s.mu.owner.Lease] == nil {
			s.own(nil)
		}
	}
}

// own changes the ownership key; nil removes it.
func (s *Store) own(owner *metalog.OwnerRecord) {
	if owner == nil && s.mu.owner == nil {
		return
	}
	s.mu.revision++
	c := change{metalog.OwnerKey{Name: s.key}, s.mu.revision}
	if owner != nil {
		owner.Tenure = s.mu.revision
		c.Owner = *owner
	}
	s.mu.owner = owner
	s.mu.changes = append(s.mu.changes, c)
	s.mu.wake()
}

func (srv *server) now() metalog.Point {
	return metalog.Point{Revision: srv.revision, History: srv.history}
}

// wake wakes the watches.
func (srv *server) wake() {
	close(srv.changed)
	srv.changed = make(chan struct{})
}

// owners returns the ownership keys that changed after a revision.
func (srv *server) owners(after int64) metalog.OwnerKeys {
	keys := metalog.OwnerKeys{Point: metalog.Point{Revision: srv.revision}}
	for _, c := range srv.changes {
		if c.revision > after {
			keys.Keys = append(keys.Keys, c.OwnerKey)
		}
	}
	return keys
}

func (s *Store) view() metalog.View {
	v := metalog.View{Tail: s.mu.tail, Revision: s.mu.revision}
	if s.mu.owner != nil {
		v.Owner, v.Owned = *s.mu.owner, true
	}
	return v
}

func (s *Store) grant(ttl time.Duration) metalog.LeaseID {
	s.mu.lastLease++
	s.mu.leases[s.mu.lastLease] = &lease{ttl: ttl, deadline: time.Now().Add(ttl)}
	return s.mu.lastLease
}

func (s *Store) claim(id metalog.LeaseID, claim metalog.OwnerRecord) (metalog.OwnerRecord, error) {
	if s.mu.owner == nil {
		if s.mu.leases[id] == nil {
			return metalog.OwnerRecord{}, metalog.ErrLeaseGone
		}
		claim.Lease = id
		s.own(&claim)
	}
	return *s.mu.owner, nil
}

func (s *Store) renew(id metalog.LeaseID) error {
	l := s.mu.leases[id]
	if l == nil {
		return metalog.ErrLeaseGone
	}
	l.deadline = time.Now().Add(l.ttl)
	return nil
}

func (s *Store) owns(tenure int64) bool { return s.mu.owner != nil && s.mu.owner.Tenure == tenure }

func (s *Store) append(tenure int64, tail metalog.Tail, rec *metalog.Record) (bool, *metalog.Record, error) {
	if s.owns(tenure) && s.mu.tail == tail {
		s.mu.revision++
		s.mu.log[rec.Index] = metalog.EncodeRecord(rec)
		s.mu.tail = metalog.Tail{Index: rec.Index, Total: rec.Total}
		return true, nil, nil
	}
	p, ok := s.mu.log[rec.Index]
	if !ok {
		return false, nil, nil
	}
	existing, err := metalog.DecodeRecord(rec.Index, p)
	return false, &existing, err
}

func (s *Store) records(from uint64, limit int) ([]metalog.Record, error) {
	var recs []metalog.Record
	for i := from; i <= s.mu.tail.Index && len(recs) < limit; i++ {
		p, ok := s.mu.log[i]
		if !ok {
			continue
		}
		rec, err := metalog.DecodeRecord(i, p)
		if err != nil {
			return nil, err
		}
		recs = append(recs, rec)
	}
	return recs, nil
}

// Open connects a replica and returns its log. If cfg has no lease, every tenure of the log gets a lease of its own, which Resign ends.
func (s *Store) Open(replica string, cfg metalog.Config) (metalog.Log, *Replica, error) {
	r := s.Connect(replica)
	l, err := metalog.New(r, cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("open log in memory: %w", err)
	}
	if cfg.Lease == nil {
		l = Lone(l, r, r, cfg)
	}
	return l, r, nil
}

// Connect returns one replica's way to the store.
func (s *Store) Connect(replica string) *Replica { return &Replica{store: s, name: replica} }

var (
	_ metalog.Store      = (*Replica)(nil)
	_ metalog.LeaseStore = (*Replica)(nil)
)

// View implements metalog.Store.
func (r *Replica) View(ctx context.Context) (metalog.View, error) {
	return do(ctx, r, Op{Kind: OpView}, func() (metalog.View, error) { return r.store.view(), nil })
}

// Grant implements metalog.LeaseStore.
func (r *Replica) Grant(ctx context.Context, ttl time.Duration) (metalog.LeaseID, error) {
	return do(ctx, r, Op{Kind: OpGrant}, func() (metalog.LeaseID, error) { return r.store.grant(ttl), nil })
}

// Claim implements metalog.Store.
func (r *Replica) Claim(ctx context.Context, l metalog.LeaseID, c metalog.OwnerRecord) (metalog.OwnerRecord, error) {
	return do(ctx, r, Op{Kind: OpClaim}, func() (metalog.OwnerRecord, error) { return r.store.claim(l, c) })
}

// Renew implements metalog.LeaseStore.
func (r *Replica) Renew(ctx context.Context, l metalog.LeaseID) error {
	_, err := do(ctx, r, Op{Kind: OpRenew}, func() (struct{}, error) { return struct{}{}, r.store.renew(l) })
	return err
}

// Revoke implements metalog.LeaseStore.
func (r *Replica) Revoke(ctx context.Context, l metalog.LeaseID) error {
	_, err := do(ctx, r, Op{Kind: OpRevoke}, func() (struct{}, error) {
		delete(r.store.mu.leases, l)
		r.store.mu.expire()
		return struct{}{}, nil
	})
	return err
}

// OwnerKey implements metalog.Store.
func (r *Replica) OwnerKey() string { return r.store.key }

// Owners implements metalog.LeaseStore.
func (r *Replica) Owners(ctx context.Context) (metalog.OwnerKeys, error) {
	return do(ctx, r, Op{Kind: OpOwners}, func() (metalog.OwnerKeys, error) {
		keys := metalog.OwnerKeys{Point: r.store.mu.now()}
		for _, s := range r.store.mu.stores {
			if s.mu.owner != nil {
				keys.Keys = append(keys.Keys, metalog.OwnerKey{Name: s.key, Owner: *s.mu.owner})
			}
		}
		return keys, nil
	})
}

// WatchOwners implements metalog.LeaseStore.
func (r *Replica) WatchOwners(ctx context.Context, after int64, update func(metalog.OwnerKeys)) error {
	for {
		news, changed, next := r.news(after)
		if news {
			keys, err := do(ctx, r, Op{Kind: OpWatch}, func() (metalog.OwnerKeys, error) { return r.store.mu.owners(after), nil })
			if err != nil {
				return err
			}
			after = keys.Revision
			update(keys)
			continue
		}
		expiry := time.NewTimer(time.Until(next))
		select {
		case <-changed:
		case <-expiry.C:
		case <-ctx.Done():
		}
		expiry.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// news reports whether a watch has something to show, or else when to look again: at changed, and at next, when the first lease runs out.
func (r *Replica) news(after int64) (news bool, changed <-chan struct{}, next time.Time) {
	srv := r.store.mu.server
	srv.Lock()
	defer srv.Unlock()
	srv.expire()
	next = time.Now().Add(time.Hour)
	for _, l := range srv.leases {
		if l.deadline.Before(next) {
			next = l.deadline
		}
	}
	news = srv.progress > after
	if n := len(srv.changes); n > 0 && srv.changes[n-1].revision > after {
		news = true
	}
	return news, srv.changed, next
}

// Now implements metalog.LeaseStore.
func (r *Replica) Now(ctx context.Context) (metalog.Point, error) {
	return do(ctx, r, Op{Kind: OpNow}, func() (metalog.Point, error) {
		srv := r.store.mu.server
		if srv.progress < srv.revision {
			srv.progress = srv.revision
			srv.wake()
		}
		return srv.now(), nil
	})
}

// Disown implements metalog.LeaseStore.
func (r *Replica) Disown(ctx context.Context, name string, tenure int64) error {
	_, err := do(ctx, r, Op{Kind: OpDisown}, func() (struct{}, error) {
		for _, s := range r.store.mu.stores {
			if s.key == name && s.owns(tenure) {
				s.own(nil)
			}
		}
		return struct{}{}, nil
	})
	return err
}

// Append implements metalog.Store.
func (r *Replica) Append(
	ctx context.Context, tenure int64, tail metalog.Tail, rec *metalog.Record,
) (bool, *metalog.Record, error) {
	type answer struct {
		ok       bool
		existing *metalog.Record
	}
	a, err := do(ctx, r, Op{Kind: OpAppend, Index: rec.Index}, func() (a answer, err error) {
		a.ok, a.existing, err = r.store.append(tenure, tail, rec)
		return a, err
	})
	return a.ok, a.existing, err
}

// Range implements metalog.Store.
func (r *Replica) Range(ctx context.Context, from uint64, limit int) ([]metalog.Record, metalog.Tail, error) {
	type answer struct {
		recs []metalog.Record
		tail metalog.Tail
	}
	a, err := do(ctx, r, Op{Kind: OpRange, Index: from}, func() (answer, error) {
		recs, err := r.store.records(from, limit)
		return answer{recs, r.store.mu.tail}, err
	})
	return a.recs, a.tail, err
}

// Delete implements metalog.Store.
func (r *Replica) Delete(ctx context.Context, tenure int64, from, to uint64) (bool, error) {
	return do(ctx, r, Op{Kind: OpDelete, Index: to}, func() (bool, error) {
		if !r.store.owns(tenure) {
			return false, nil
		}
		for i := from; i < to; i++ {
			delete(r.store.mu.log, i)
		}
		return true, nil
	})
}

// SetSnapshots implements metalog.Store.
func (r *Replica) SetSnapshots(ctx context.Context, tenure, revision int64, refs []metalog.SnapshotRef) (bool, error) {
	return do(ctx, r, Op{Kind: OpSetSnapshots}, func() (bool, error) {
		mu := &r.store.mu
		switch {
		case !r.store.owns(tenure):
			return false, nil
		case mu.snapshots.Revision != revision:
			return false, metalog.ErrMoved
		}
		mu.revision++
		mu.snapshots = metalog.Pointers{Refs: slices.Clone(refs), Revision: mu.revision}
		return true, nil
	})
}

// Snapshots implements metalog.Store.
func (r *Replica) Snapshots(ctx context.Context) (metalog.Pointers, error) {
	return do(ctx, r, Op{Kind: OpSnapshots}, func() (metalog.Pointers, error) {
		p := r.store.mu.snapshots
		p.Refs = slices.Clone(p.Refs)
		return p, nil
	})
}
