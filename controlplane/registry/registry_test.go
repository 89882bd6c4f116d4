package registry

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/internal/etcdserver"
	"github.com/freshet-io/freshet/metadata/id"
)

var golden = flag.Bool("golden", false, "write golden files")

var (
	start = time.Date(2026, 11, 28, 6, 30, 0, 0, time.UTC)
	by    = Actor{Name: "test", Address: "192.0.2.1"}
	hash  = accesskey.HashOf
)

// fixture is two Registries on one etcd with one clock.
type fixture struct {
	*Registry
	second *Registry
	dir    directory.Directory
	client *faulty
	clock  *atomic.Int64 // ms
}

// faulty is a client that counts calls. Its transactions fail once their number has passed a limit.
type faulty struct {
	Client
	gets, txns, limit atomic.Int64 // no limit: 0
	deaf              atomic.Bool  // the answers of transactions are lost
}

func (f *faulty) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	f.gets.Add(1)
	return f.Client.Get(ctx, key, opts...)
}

var errCut = errors.New("cut off")

// deafTxn makes its transaction and loses the answer.
type deafTxn struct{ clientv3.Txn }

func (t deafTxn) If(cmps ...clientv3.Cmp) clientv3.Txn { return deafTxn{t.Txn.If(cmps...)} }
func (t deafTxn) Then(ops ...clientv3.Op) clientv3.Txn { return deafTxn{t.Txn.Then(ops...)} }
func (t deafTxn) Commit() (*clientv3.TxnResponse, error) {
	_, err := t.Txn.Commit()
	return nil, errors.Join(errCut, err)
}

// cutTxn makes no transaction.
type cutTxn struct{ clientv3.Txn }

func (t cutTxn) If(...clientv3.Cmp) clientv3.Txn               { return t }
func (t cutTxn) Then(...clientv3.Op) clientv3.Txn              { return t }
func (t cutTxn) Else(...clientv3.Op) clientv3.Txn              { return t }
func (t cutTxn) Commit() (resp *clientv3.TxnResponse, _ error) { return resp, errCut }

func (f *faulty) Txn(ctx context.Context) clientv3.Txn {
	if limit := f.limit.Load(); f.txns.Add(1) > limit && limit > 0 {
		return cutTxn{}
	}
	if f.deaf.Load() {
		return deafTxn{f.Client.Txn(ctx)}
	}
	return f.Client.Txn(ctx)
}

func open(t *testing.T) *fixture {
	t.Helper()
	etcd, err := etcdserver.Start(t.Context(), etcdserver.Config{Dir: t.TempDir()}, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(etcd.Close)
	f := &fixture{client: &faulty{Client: etcd.Client()}, clock: &atomic.Int64{}}
	f.clock.Store(start.UnixMilli())
	now := func() time.Time { return time.UnixMilli(f.clock.Load()) }
	f.Registry = New(Config{Client: f.client, Prefix: "/p", Now: now})
	f.second = New(Config{Client: etcd.Client(), Prefix: "/p", Now: now})
	f.dir = directory.Directory{Client: etcd.Client(), Prefix: "/p"}
	return f
}

func (f *fixture) pass(d time.Duration) { f.clock.Add(d.Milliseconds()) }

// account creates an account with a name of its own, as operators do.
func (f *fixture) account(t *testing.T, name string) *Account {
	t.Helper()
	a, err := f.CreateAccount(t.Context(), NewAccount{Email: name + "@example.com", Name: name})
	require.NoError(t, err)
	return a
}

// team creates an account and its team.
func (f *fixture) team(t *testing.T, name string) (*Team, *Account) {
	t.Helper()
	a := f.account(t, name)
	team, err := f.CreateTeam(t.Context(), by, name, a.ID)
	require.NoError(t, err)
	return team, a
}

// keys returns the keys that have a text in them, or in their values.
func (f *fixture) keys(t *testing.T, part string) (keys []string) {
	t.Helper()
	resp, err := f.client.Get(t.Context(), "/p/", clientv3.WithPrefix())
	require.NoError(t, err)
	for _, kv := range resp.Kvs {
		if strings.Contains(string(kv.Key), part) || strings.Contains(string(kv.Value), part) {
			keys = append(keys, string(kv.Key))
		}
	}
	return keys
}

// race calls try at once for each number below n, by turns on both Registries. A conflict is tried again. It returns the number of calls that ended
// without an error, and fails the test for an error that is not expected.
func (f *fixture) race(t *testing.T, n int, expected func(error) bool, try func(r *Registry, i int) error) int {
	t.Helper()
	var done atomic.Int64
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for conflicts := 0; ; conflicts++ {
				err := try([]*Registry{f.Registry, f.second}[i%2], i)
				if errors.Is(err, ErrConflict) && conflicts < 100*n {
					continue
				}
				if err == nil {
					done.Add(1)
				} else if !expected(err) {
					t.Errorf("call %d: %v", i, err)
				}
				return
			}
		})
	}
	all.Wait()
	return int(done.Load())
}

func bound(name string) func(error) bool {
	return func(err error) bool {
		var e *BoundError
		return errors.As(err, &e) && e.Bound == name
	}
}

func is(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }

// examples has one record of each kind with every field.
func examples() []record {
	const one, two = "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBA"
	h, sum, later := Head{Version: 1}, hash("secret").Digits(), start.Add(time.Hour)
	return []record{
		&Account{
			Head: h, ID: one, Email: "ada@example.com", Name: "Ada", PasswordHash: "$argon2id$v=19$", Verified: later, Addresses: []Familiar{{"192.0.2.1", tries{3, start}}},
			Passed: tries{2, start}, Created: start, Teams: []string{two}, Sessions: []OpenSession{{SHA256: sum, Expires: later}},
		},
		&Session{Head: h, SHA256: sum, Account: one, Created: start, Expires: later},
		&Team{Head: h, ID: two, Name: "Data", Created: start, SignedUp: true, ApprovedAt: later, Deleting: true, Audited: 7},
		&Member{Head: h, Team: two, Account: one, Role: Admin, Created: start},
		&Invitation{Head: h, Team: two, SHA256: sum, Email: "bob@example.com", Role: ReadOnly, Created: start, Expires: later},
		&Cluster{Head: h, ID: one, Team: two, Name: "orders", State: directory.Deleted, Created: start, Deleted: later, Restored: start, Contacted: later, Expires: later, Purged: later, Blocked: later, WasSuspended: true},
		&PendingSignUp{Head: h, SHA256: sum, Email: "ada@example.com", PasswordHash: "$argon2id$", Team: "data", Cluster: "orders", Demo: true, Created: start, Expires: later},
		&reset{Head: h, SHA256: sum, Account: one, Former: sum, Created: start, Expires: later},
		&AgentKey{Head: h, Team: two, Cluster: one, SHA256: sum, Shown: "fsk_AAAAAAAA", Name: "zone a", Created: start, Used: later},
		&Token{Head: h, Team: two, Account: one, SHA256: sum, Role: Ordinary, Name: "ci", Created: start, Expires: later, Used: later},
		&Entry{Head: h, Team: two, Number: entryNumber(7), Actor: one, Address: "192.0.2.1", Action: "member.add", Subject: one, Time: start},
		&attempts{Head: h, Slot: entryNumber(uint64(SignUps)<<slotBits | 7), tries: tries{3, start}},
	}
}

// like returns a record of the kind and place of another one, without other fields.
func like(rec record) record {
	var other record
	switch rec.(type) {
	case *Account:
		other = &Account{}
	case *attempts:
		other = &attempts{}
	case *Session:
		other = &Session{}
	case *Team:
		other = &Team{}
	case *Member:
		other = &Member{}
	case *Invitation:
		other = &Invitation{}
	case *Cluster:
		other = &Cluster{}
	case *PendingSignUp:
		other = &PendingSignUp{}
	case *reset:
		other = &reset{}
	case *AgentKey:
		other = &AgentKey{}
	case *Token:
		other = &Token{}
	case *Entry:
		other = &Entry{}
	}
	for i, part := range rec.place() {
		*other.place()[i] = *part
	}
	return other
}

// TestRecords_Golden pins key and JSON of each kind.
func TestRecords_Golden(t *testing.T) {
	r := New(Config{Prefix: "/p"})
	for _, rec := range examples() {
		t.Run(rec.kind(), func(t *testing.T) {
			path := "testdata/" + rec.kind() + ".golden"
			op, err := r.put(rec)
			require.NoError(t, err)
			stored := string(op.KeyBytes()) + "\n" + string(op.ValueBytes()) + "\n"
			if *golden {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(path, []byte(stored), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), stored)
			got := like(rec)
			require.NoError(t, decode(got, &mvccpb.KeyValue{Key: op.KeyBytes(), Value: op.ValueBytes()}))
			require.Equal(t, rec, got)
		})
	}
}

// TestRecords_Refused decodes values that are invalid, or of a newer program.
func TestRecords_Refused(t *testing.T) {
	for _, rec := range examples() {
		good, err := json.Marshal(rec)
		require.NoError(t, err)
		for _, c := range []struct {
			value string
			want  error
			text  string
		}{
			{"", ErrMalformed, "unexpected end"},
			{string(good) + "{}", ErrMalformed, "after top-level value"},
			{strings.Repeat(" ", maxRecordBytes) + string(good), ErrMalformed, "limit 65536"},
			{`{"version": 0}`, ErrMalformed, "version 0"},
			{`{"version": 1}`, ErrMalformed, "no time of creation"},
			{strings.Replace(string(good), "{", `{"more": 1,`, 1), ErrMalformed, "unknown field"},
			{`{"version": 2, "name": 7, "more": 1}`, ErrNewer, "version 2, and this program reads up to 1"},
		} {
			err := decode(like(rec), &mvccpb.KeyValue{Key: []byte("/p/key"), Value: []byte(c.value)})
			require.ErrorIs(t, err, c.want, "%s: %.80s", rec.kind(), c.value)
			require.ErrorContains(t, err, c.text)
			require.ErrorContains(t, err, `"/p/key"`)
		}
	}
}

// TestRecords_Bounds stores texts at and above their bounds.
func TestRecords_Bounds(t *testing.T) {
	r := New(Config{Prefix: "/p"})
	a := examples()[0].(*Account)
	for _, c := range []struct {
		field *string
		limit int
	}{{&a.Name, MaxNameBytes}, {&a.PasswordHash, MaxPasswordHashBytes}, {&a.Addresses[0].Address, MaxAddressBytes}} {
		was := *c.field
		*c.field = strings.Repeat("x", c.limit)
		_, err := r.put(a)
		require.NoError(t, err)
		for _, invalid := range []string{strings.Repeat("x", c.limit+1), " x", "a\nb", "\xff"} {
			*c.field = invalid
			_, err = r.put(a)
			require.ErrorIs(t, err, ErrInvalid, invalid)
		}
		*c.field = was
	}
	for _, grow := range []func(){
		func() { a.Addresses = make([]Familiar, MaxAddresses+1) },
		func() { a.Teams = make([]string, MaxTeams+1) },
		func() { a.Sessions = make([]OpenSession, MaxSessions+1) },
	} {
		grow()
		_, err := r.put(a)
		require.ErrorIs(t, err, ErrInvalid)
	}
	for email, want := range map[string]string{
		" Ada@Example.COM ": "ada@example.com", "a@b/c": "a@b/c", "a@b": "a@b", "": "", "ada": "", "a b@c": "", "Ada <a@b>": "", "a@b, c@d": "",
		strings.Repeat("a", MaxEmailBytes-2) + "@b": strings.Repeat("a", MaxEmailBytes-2) + "@b", strings.Repeat("a", MaxEmailBytes-1) + "@b": "",
	} {
		got, err := NormalizeEmail(email)
		require.Equal(t, want, got)
		require.Equal(t, want == "", errors.Is(err, ErrInvalid), email)
	}
}

// TestRecords_FaultyInLists: a list goes on without a record that cannot be read, and reports its key.
func TestRecords_FaultyInLists(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	team, owner := f.team(t, "ada")
	one, two := id.NewCluster(), id.NewCluster()
	require.NoError(t, f.CreateCluster(ctx, by, team.ID, one, "one"))
	require.NoError(t, f.CreateCluster(ctx, by, team.ID, two, "two"))
	for key, value := range map[string]string{
		f.key(memberKind, team.ID, id.NewCluster()):        "{",
		f.key(memberKind, team.ID, id.NewCluster(), "x"):   "{}",
		f.key(clusterKind, one):                            `{"version": 2}`,
		f.key(auditKind, team.ID, entryNumber(2)):          "{",
		f.key(memberKind, team.ID, strings.Repeat("n", 9)): `{"version":1,"role":"owner","created":"2026-11-28T06:30:00Z"}`,
	} {
		_, err := f.client.Put(ctx, key, value)
		require.NoError(t, err)
	}
	members, err := f.Members(ctx, team.ID)
	require.NoError(t, err)
	require.Len(t, members.Records, 1)
	require.Len(t, members.Faults, 3)
	require.ErrorContains(t, members.Faults[0], f.key(memberKind, team.ID))
	require.ErrorIs(t, f.RemoveMember(ctx, by, team.ID, owner.ID), ErrLastOwner, "a malformed record is no owner")

	clusters, err := f.Clusters(ctx, team.ID)
	require.NoError(t, err)
	require.Len(t, clusters.Records, 1)
	require.Len(t, clusters.Faults, 1)
	require.ErrorIs(t, clusters.Faults[0], ErrNewer)
	require.ErrorContains(t, clusters.Faults[0], f.key(clusterKind, one))
	require.ErrorIs(t, f.DeleteTeam(ctx, by, team.ID), ErrClusters)
	err = f.UpdateCluster(ctx, by, one, func(*Cluster) error { return nil })
	require.ErrorIs(t, err, ErrNewer)

	page, _, err := f.Audit(ctx, team.ID, 0)
	require.NoError(t, err)
	require.Len(t, page.Records, 2)
	require.Len(t, page.Faults, 1)
}

// TestRegistry_LostAnswers: a call whose answer was lost can be repeated, and its change is made once, with one audit entry.
func TestRegistry_LostAnswers(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	team, owner := f.team(t, "ada")
	bob, cluster := f.account(t, "bob"), id.NewCluster()
	_, err := f.attemptSecret(ctx) // a transaction of its own
	require.NoError(t, err)
	for _, c := range []struct {
		call  func() error
		again error
	}{
		{func() error { return f.AddMember(ctx, by, team.ID, bob.ID, Admin) }, ErrTaken},
		{func() error { return f.CreateCluster(ctx, by, team.ID, cluster, "orders") }, ErrTaken},
		{func() error { return f.CreateAgentKey(ctx, by, cluster, "key", "fsk_", hash("k")) }, ErrTaken},
		{func() error { return f.RevokeAgentKey(ctx, by, cluster, hash("k")) }, ErrNotFound},
		{func() error {
			return f.CreateToken(ctx, by, NewToken{Team: team.ID, Account: owner.ID, Role: Admin, Name: "ci"}, hash("t"))
		}, ErrTaken},
		{func() error { return f.RevokeToken(ctx, by, team.ID, owner.ID, hash("t")) }, ErrNotFound},
		{func() error { return f.RemoveMember(ctx, by, team.ID, bob.ID) }, ErrNotFound},
		{func() error { return f.DeleteAccount(ctx, by, bob.ID) }, ErrNotFound},
	} {
		before, err := f.Team(ctx, team.ID)
		require.NoError(t, err)
		f.client.deaf.Store(true)
		require.ErrorIs(t, c.call(), errCut)
		f.client.deaf.Store(false)
		require.ErrorIs(t, c.call(), c.again)
		after, err := f.Team(ctx, team.ID)
		require.NoError(t, err)
		require.LessOrEqual(t, after.Audited, before.Audited+1)
	}
	require.Len(t, f.auditMatches(t, team.ID), 1+7)
	require.Empty(t, f.keys(t, "/accounts/"+bob.ID))
}

// TestRegistry_ForeignIDs: an ID of a request cannot reach the keys of another kind or team.
func TestRegistry_ForeignIDs(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	team, owner := f.team(t, "ada")
	for _, foreign := range []string{"", "..", team.ID + "/" + owner.ID, "../teams/" + team.ID, strings.Repeat("x", 1<<20)} {
		f.client.gets.Store(0)
		_, err := f.Account(ctx, foreign)
		require.ErrorIs(t, err, ErrNotFound)
		require.Zero(t, f.client.gets.Load(), "etcd is not asked")
		require.Less(t, len(err.Error()), 200)
		require.ErrorIs(t, f.RenameTeam(ctx, by, foreign, "x"), ErrNotFound)
		require.ErrorIs(t, f.RemoveMember(ctx, by, team.ID, foreign), ErrNotFound)
		require.ErrorIs(t, f.RevokeToken(ctx, by, team.ID, foreign, hash("x")), ErrNotFound)
		members, err := f.Members(ctx, foreign)
		require.NoError(t, err)
		require.Empty(t, members)
	}
	_, err := f.Session(ctx, hash("none"))
	require.ErrorIs(t, err, ErrNotFound)
	require.Equal(t, fmt.Sprintf("limit of %d x reached", 3), (&BoundError{Bound: "x", Limit: 3}).Error())
}

// TestChangePassword: a change compares the former hash, and ends the other sessions in its transaction.
func TestChangePassword(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	a, err := f.CreateAccount(ctx, NewAccount{Email: "ada@example.com", Name: "ada", PasswordHash: "one"})
	require.NoError(t, err)
	for _, secret := range []string{"kept", "ended"} {
		_, err := f.StartSession(ctx, a.ID, hash(secret), "192.0.2.1", start.Add(time.Hour))
		require.NoError(t, err)
	}
	require.ErrorIs(t, f.ChangePassword(ctx, a.ID, "other", "two", hash("kept")), ErrConflict)
	require.Equal(t, 1, f.race(t, 2, is(ErrConflict), func(r *Registry, _ int) error { return r.ChangePassword(ctx, a.ID, "one", "two", hash("kept")) }))
	_, err = f.Session(ctx, hash("kept"))
	require.NoError(t, err)
	_, err = f.Session(ctx, hash("ended"))
	require.ErrorIs(t, err, ErrNotFound)
	a, err = f.Account(ctx, a.ID)
	require.NoError(t, err)
	require.Equal(t, "two", a.PasswordHash)
	require.Len(t, a.Sessions, 1)
}

// TestAllClusters_BeyondOnePage: the list of all clusters has those behind the first page of etcd too, and the errors of the unreadable ones.
func TestAllClusters_BeyondOnePage(t *testing.T) {
	f := open(t)
	f.fill(t, clusterKind, maxListed)
	team, _ := f.team(t, "ada")
	last := strings.Repeat("z", 21) + "w"
	require.NoError(t, f.CreateCluster(t.Context(), by, team.ID, last, "orders"))
	all, err := f.AllClusters(t.Context())
	require.NoError(t, err)
	require.Len(t, all.Faults, maxListed)
	require.Len(t, all.Records, 1)
	require.Equal(t, last, all.Records[0].ID)
}
