// Package registry stores the records of a hosted control plane in etcd: accounts with sessions, and teams with members, invitations,
// clusters, agent keys, API tokens and an audit trail. DESIGN.md has the keys, the transactions and the crash points.
//
// Each record is JSON with a version, under <prefix>/+registry/<kind>/<id> (testdata/*.golden). Secrets are stored as SHA-256 only. The caller
// hashes passwords.
//
// Any number of Registries may use one prefix. A change compares the revisions of the records that it read. If one has changed, the
// Registry reads again, up to maxAttempts times, and then returns ErrConflict. After an error of etcd the change may have been made.
package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/metadata/id"
)

// Bounds of the registry.
const (
	// MaxClusters bounds the clusters of a team. Deleted clusters count until RemoveCluster.
	MaxClusters = 20
	// MaxUnapprovedClusters bounds the clusters of a team that is not approved.
	MaxUnapprovedClusters = 2
	// DefaultMaxHosted is the default of Config.MaxHosted.
	DefaultMaxHosted = 1000
	// MaxMembers bounds the members and invitations of a team.
	MaxMembers = 50
	// MaxAgentKeys bounds the agent keys of all clusters of a team.
	MaxAgentKeys = 100
	// MaxTokens bounds the API tokens of a team.
	MaxTokens = 100
	// MaxAccounts bounds the accounts up to which sign-ups create further ones. Sign-ups at once can exceed it by their number. Package expiry removes
	// abandoned accounts.
	MaxAccounts = 10_000
	// MaxTeams bounds the teams of an account.
	MaxTeams = 20
	// MaxSessions bounds the sessions of an account. A further session ends the oldest one.
	MaxSessions = 20
	// MaxAddresses bounds the login addresses that an account remembers. The oldest one is forgotten first.
	MaxAddresses = 10
	// MaxAuditEntries bounds the audit entries of a team. The oldest one is deleted first.
	MaxAuditEntries = 1000
	// MaxUnapprovedAuditEntries is MaxAuditEntries of a team that is not approved.
	MaxUnapprovedAuditEntries = 100
	// ContactEvery is the minimum time between two writes of Cluster.Contacted.
	ContactEvery = 24 * time.Hour
	// UndeleteTime is the time for which a deleted cluster keeps everything, so that it can be brought back.
	UndeleteTime = 24 * time.Hour
	// DemoLife is the time from the sign-up of a demo to the deletion of its cluster.
	DemoLife = 24 * time.Hour
	// MaxLifetime bounds the time until a session, an invitation or a token expires, and so the number of leases.
	MaxLifetime = 366 * 24 * time.Hour

	// maxAttempts bounds the attempts of one change while other changes of the same records come first. All pauses take 7 s at most.
	maxAttempts = 40
	firstPause  = 4 * time.Millisecond // greatest pause after the first attempt
	lastPause   = 200 * time.Millisecond
	// maxListed is the page of each, and above the bound of every other list, so that records in excess of it are still found.
	maxListed = 500
)

var (
	// ErrConflict is returned if other changes of the same records came first maxAttempts times.
	ErrConflict = errors.New("the records have changed meanwhile: try again")
	// ErrNotFound is returned for a record that does not exist or has expired.
	ErrNotFound = errors.New("not found")
	// ErrTaken is returned for an e-mail address, a cluster name or an ID that another record has.
	ErrTaken = errors.New("already taken")
	// ErrInvalid is returned for a field that is malformed or exceeds its bound.
	ErrInvalid = errors.New("invalid")
	// ErrLastOwner is returned for a change that would leave a team without an owner.
	ErrLastOwner = errors.New("the team needs another owner first")
	// ErrRole is returned for a change that gives, changes or removes a role above the actor's.
	ErrRole = errors.New("the role is above that of the actor")
	// ErrClusters is returned by DeleteTeam if the team has a cluster that is not deleted.
	ErrClusters = errors.New("the team has clusters that are not deleted")
	// ErrDeleting is returned for a change of a team whose deletion has begun: call DeleteTeam again.
	ErrDeleting = errors.New("the team is being deleted")
	// ErrMalformed is returned for a record in etcd that does not decode.
	ErrMalformed = errors.New("malformed record")
	// ErrNewer is returned for a record in etcd that a newer program wrote.
	ErrNewer = errors.New("a newer program wrote the record: upgrade this control plane")
)

// BoundError is returned for a record above a bound.
type BoundError struct {
	Bound string // for example "clusters of a team"
	Limit int
}

func (e *BoundError) Error() string { return fmt.Sprintf("limit of %d %s reached", e.Limit, e.Bound) }

// Client is the part of an etcd client that a Registry needs.
type Client interface {
	clientv3.KV
	Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error)
	Revoke(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error)
}

// Config configures a Registry.
type Config struct {
	Client Client           // not closed
	Prefix string           // --etcd-prefix
	Now    func() time.Time // default time.Now
	// Hour is the span of time whose expiring records share a lease; whole seconds, the same in all Registries, default an hour.
	Hour time.Duration
	// MaxHosted is the number of clusters of all teams up to which further ones are created. Requests at once can exceed it by their number. Default
	// DefaultMaxHosted.
	MaxHosted int
}

// Registry reads and changes the records. It is safe for concurrent use.
type Registry struct {
	cfg    Config
	secret atomic.Pointer[[]byte] // of attempts, nil before the first one
}

// New returns a Registry.
func New(cfg Config) *Registry {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Hour == 0 {
		cfg.Hour = time.Hour
	}
	cfg.MaxHosted = cmp.Or(cfg.MaxHosted, DefaultMaxHosted)
	return &Registry{cfg: cfg}
}

// now returns the time in the precision of records.
func (r *Registry) now() time.Time { return r.cfg.Now().UTC().Truncate(time.Millisecond) }

// key returns the key of an ID in a kind.
func (r *Registry) key(kind string, parts ...string) string {
	key := r.cfg.Prefix + "/+registry/" + kind
	for _, part := range parts {
		key += "/" + part
	}
	return key
}

// newID returns a random ID of an account or a team, in the form of a cluster ID.
func newID() string { return id.NewCluster() }

// commit runs a transaction and reports whether all comparisons held.
func (r *Registry) commit(ctx context.Context, action string, cmps []clientv3.Cmp, ops []clientv3.Op) (bool, error) {
	resp, err := r.cfg.Client.Txn(ctx).If(cmps...).Then(ops...).Commit()
	if err != nil {
		return false, fmt.Errorf("%s in etcd: %w", action, err)
	}
	return resp.Succeeded, nil
}

func absent(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), "=", 0) }

func (r *Registry) exists(ctx context.Context, key string) (bool, error) {
	resp, err := r.cfg.Client.Get(ctx, key, clientv3.WithCountOnly())
	if err != nil {
		return false, fmt.Errorf("read %s in etcd: %w", key, err)
	}
	return resp.Count > 0, nil
}

// free returns ErrTaken, with the name of the record, if a key exists.
func (r *Registry) free(ctx context.Context, key, name string) error {
	found, err := r.exists(ctx, key)
	if err == nil && found {
		err = fmt.Errorf("%s: %w", name, ErrTaken)
	}
	return err
}

// found returns ErrNotFound if there is no record at a place.
func (r *Registry) found(ctx context.Context, kind string, place ...string) error {
	for _, part := range place {
		if !validPart(part) {
			return notFound(kind, place)
		}
	}
	found, err := r.exists(ctx, r.key(kind, place...))
	if err == nil && !found {
		err = notFound(kind, place)
	}
	return err
}

func notFound(kind string, place []string) error {
	return fmt.Errorf("%s %.120q: %w", kind, strings.Join(place, "/"), ErrNotFound)
}

// retry calls attempt until it reports success or fails, up to maxAttempts times. The pauses in between are random and grow, so that a client that changes
// the same records without pause does not always come first. It returns ErrConflict also if ctx ends in a pause.
func retry(ctx context.Context, attempt func() (done bool, err error)) error {
	for pause, n := firstPause, 1; ; pause, n = min(2*pause, lastPause), n+1 {
		if done, err := attempt(); done || err != nil {
			return err
		}
		if n == maxAttempts {
			return ErrConflict
		}
		select {
		case <-ctx.Done():
			return ErrConflict
		case <-time.After(rand.N(pause)):
		}
	}
}
