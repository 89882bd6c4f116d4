package directory

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/internal/etcdserver"
	"github.com/freshet-io/freshet/internal/generation"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

var golden = flag.Bool("golden", false, "write golden files")

const goldenID = "AAAAAAAAAAAAAAAAAAAAAA"

// example is a Spec with every field.
func example(t *testing.T) *Spec {
	t.Helper()
	s := &Spec{ID: goldenID, Stored: true, Name: "orders", State: Active, Warm: true, Memory: 256 << 20, LogBytes: 8 << 20, DefaultPartitions: 3, Keys: []Key{
		{Hash: accesskey.HashOf("a"), Kind: keys.Agent}, {Hash: accesskey.HashOf("b"), Kind: keys.ReadOnly},
	}}
	for kind := range s.Limits {
		s.Limits[kind] = int64(1000 + kind)
	}
	require.NoError(t, s.Broker.Set("group.max.size", "200"))
	return s
}

// TestSpec_Golden pins the JSON of a Spec.
func TestSpec_Golden(t *testing.T) {
	const path = "testdata/spec.golden"
	value, err := example(t).encode()
	require.NoError(t, err)
	if *golden {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, append(value, '\n'), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(value)+"\n")
	read, err := decode(goldenID, want)
	require.NoError(t, err)
	require.Equal(t, example(t), read)
	require.Equal(t, []keys.Entry{
		{Hash: accesskey.HashOf("a"), Kind: keys.Agent, VirtualCluster: "orders"}, {Hash: accesskey.HashOf("b"), Kind: keys.ReadOnly, VirtualCluster: "orders"},
	}, read.Entries())
}

// TestSpec_Invalid decodes invalid Specs.
func TestSpec_Invalid(t *testing.T) {
	good, err := example(t).encode()
	require.NoError(t, err)
	with := func(field string, value any) string {
		var fields map[string]any
		require.NoError(t, json.Unmarshal(good, &fields))
		fields[field] = value
		changed, err := json.Marshal(fields)
		require.NoError(t, err)
		return string(changed)
	}
	key := map[string]string{"kind": "agent", "sha256": accesskey.HashOf("k").Digits()}
	of := func(n int) (all []any) {
		for i := range n {
			all = append(all, map[string]string{"kind": "agent", "sha256": accesskey.HashOf(fmt.Sprint(i)).Digits()})
		}
		return all
	}
	for _, c := range []struct{ id, value, fault string }{
		{goldenID, with("keys", of(MaxSpecKeys)), ""},
		{goldenID, with("keys", of(MaxSpecKeys+1)), "101 keys, limit 100"},
		{goldenID, with("name", strings.Repeat("n", MaxSpecBytes)), "bytes, limit 65536"},
		{"short", string(good), `"short" is no cluster id`},
		{goldenID, "", "unexpected end of JSON input"},
		{goldenID, string(good) + "{}", "invalid character '{' after top-level value"},
		{goldenID, with("version", 0), "version 0"},
		{goldenID, with("version", "1"), "cannot unmarshal string"},
		{goldenID, with("more", 1), `unknown field "more"`},
		{goldenID, with("name", "a/b"), `"a/b" is no name`},
		{goldenID, with("state", "gone"), `unknown state "gone"`},
		{goldenID, with("memory_bytes", 0), ""},
		{goldenID, with("memory_bytes", MinMemory-1), "16777215 bytes of memory, at least 16777216"},
		{goldenID, with("log_bytes", 0), ""},
		{goldenID, with("log_bytes", MinLogBytes), ""},
		{goldenID, with("log_bytes", MinLogBytes-1), "log of 1048575 bytes, at least 1048576"},
		{goldenID, with("log_bytes", -1), "log of -1 bytes"},
		{goldenID, with("default_partitions", 0), "0 partitions by default: must be 1 to"},
		{goldenID, with("default_partitions", metadata.MaxPartitions+1), "partitions by default"},
		{goldenID, with("keys", []any{key, map[string]string{"kind": "read-only", "sha256": key["sha256"]}}), "key 2 is there twice"},
		{goldenID, with("keys", []any{map[string]string{"kind": "operator", "sha256": key["sha256"]}}), "key 1: want a kind"},
		{goldenID, with("keys", []any{map[string]string{"kind": "agent", "sha256": "abc"}}), "key 1: want a kind"},
		{goldenID, with("keys", []any{map[string]string{"kind": "agent", "sha256": accesskey.HashOf("").Digits()}}), "key 1: want a kind"},
		{goldenID, with("limits", map[string]int{"topics": -1}), `limit "topics" of -1`},
		{goldenID, with("limits", map[string]int{"tables": 1}), `limit "tables" of 1`},
		{goldenID, with("configs", map[string]string{"no.such": "1"}), "Unknown broker config name: no.such"},
		{goldenID, with("configs", map[string]string{"group.max.size": "0"}), "Value must be at least 1"},
		{goldenID, with("configs", map[string]string{"group.min.session.timeout.ms": "3600000"}), "must be greater than or equal"},
	} {
		_, err := decode(c.id, []byte(c.value))
		if c.fault == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ErrSpec, c.fault)
		require.ErrorContains(t, err, c.fault)
	}
	_, err = decode(goldenID, []byte(`{"version": 2, "name": 7}`))
	require.ErrorIs(t, err, ErrNewer)
}

func directory(t *testing.T) Directory {
	t.Helper()
	etcd, err := etcdserver.Start(t.Context(), etcdserver.Config{Dir: t.TempDir()}, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(etcd.Close)
	return Directory{Client: etcd.Client(), Prefix: "/freshet"}
}

func named(name string) *Spec {
	return &Spec{ID: id.NewCluster(), Stored: true, Name: name, State: Active, Memory: DefaultMemory, DefaultPartitions: 1}
}

func TestSpecs_Stored(t *testing.T) {
	d, ctx := directory(t), t.Context()
	one := named("one")
	require.NoError(t, d.Create(ctx, one))
	require.ErrorIs(t, d.Create(ctx, one), ErrNameTaken)
	require.ErrorIs(t, d.Create(ctx, named("one")), ErrNameTaken)
	require.ErrorIs(t, d.Create(ctx, &Spec{ID: one.ID, Name: "two", State: Active, DefaultPartitions: 1}), ErrNameTaken)
	require.ErrorIs(t, d.Create(ctx, named("a/b")), ErrSpec)
	found, err := d.Resolve(ctx, "one")
	require.NoError(t, err)
	require.Equal(t, one.ID, found, "the settings of a control plane can name the virtual cluster too")

	_, err = d.Resolve(ctx, "static")
	require.NoError(t, err)
	require.ErrorIs(t, d.Create(ctx, named("static")), ErrNameTaken)
	_, err = d.Client.Put(ctx, d.earlier("old"), "")
	require.NoError(t, err)
	require.ErrorIs(t, d.Create(ctx, named("old")), generation.ErrOther)

	read, revision, err := d.Get(ctx, one.ID)
	require.NoError(t, err)
	require.Equal(t, one, read)
	read.State = Suspended
	require.NoError(t, d.Update(ctx, read, revision))
	require.ErrorIs(t, d.Update(ctx, read, revision), ErrChanged)
	_, revision, err = d.Get(ctx, one.ID)
	require.NoError(t, err)
	renamed := *read
	renamed.Name = "other"
	require.ErrorIs(t, d.Update(ctx, &renamed, revision), ErrChanged)
	read, _, err = d.Get(ctx, one.ID)
	require.NoError(t, err)
	require.Equal(t, Suspended, read.State)
	read, _, err = d.Get(ctx, id.NewCluster())
	require.NoError(t, err)
	require.Nil(t, read)
}

// TestWatch: more Specs than one page has, an invalid one among them, and each kind of change.
func TestWatch(t *testing.T) {
	d, ctx := directory(t), t.Context()
	want := map[string]string{}
	for i := range listPage + 1 {
		s := named(fmt.Sprintf("vc-%d", i))
		require.NoError(t, d.Create(ctx, s))
		want[s.ID] = s.Name
	}
	_, err := d.Client.Put(ctx, d.SpecKey("broken"), "{")
	require.NoError(t, err)

	batches := make(chan []Change, 100)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Watch(ctx, zap.NewNop(), func(all []Change) { batches <- all })
	}()
	next := func() []Change {
		t.Helper()
		select {
		case all := <-batches:
			return all
		case <-time.After(30 * time.Second):
			require.FailNow(t, "no change")
			return nil
		}
	}
	got := map[string]string{}
	for _, c := range next() {
		if c.ID == "broken" {
			require.ErrorIs(t, c.Fault, ErrSpec)
			require.Nil(t, c.Spec)
			continue
		}
		got[c.ID] = c.Spec.Name
	}
	require.Equal(t, want, got, "the first call has all")

	s := named("new")
	require.NoError(t, d.Create(ctx, s))
	created := next()
	require.Equal(t, []Change{{ID: s.ID, Created: created[0].Created, Spec: s}}, created)
	require.Positive(t, created[0].Created)
	read, revision, err := d.Get(ctx, s.ID)
	require.NoError(t, err)
	read.State = Deleted
	require.NoError(t, d.Update(ctx, read, revision))
	require.Equal(t, []Change{{ID: s.ID, Created: created[0].Created, Spec: read}}, next())
	_, err = d.Client.Delete(ctx, d.SpecKey(s.ID))
	require.NoError(t, err)
	require.Equal(t, []Change{{ID: s.ID}}, next())
	cancel()
	<-ended
}

// TestWatch_AfterCompaction: a watcher that missed changes, which etcd has compacted since, finds their outcome.
func TestWatch_AfterCompaction(t *testing.T) {
	d, ctx := directory(t), t.Context()
	stays, changes, goes := named("stays"), named("changes"), named("goes")
	for _, s := range []*Spec{stays, changes, goes} {
		require.NoError(t, d.Create(ctx, s))
	}
	got := map[string]State{}
	calls := 0
	w := &watcher{Directory: d, apply: func(all []Change) {
		calls++
		for _, c := range all {
			if c.Spec == nil {
				delete(got, c.ID)
				continue
			}
			got[c.ID] = c.Spec.State
		}
	}}
	_, err := w.list(ctx)
	require.NoError(t, err)
	require.Len(t, got, 3)

	_, revision, err := d.Get(ctx, changes.ID)
	require.NoError(t, err)
	changes.State = Suspended
	require.NoError(t, d.Update(ctx, changes, revision))
	_, err = d.Client.Delete(ctx, d.SpecKey(goes.ID))
	require.NoError(t, err)
	now, err := d.Client.Get(ctx, "any")
	require.NoError(t, err)
	_, err = d.Client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
	require.NoError(t, err)
	_, err = w.list(ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]State{stays.ID: Active, changes.ID: Suspended}, got)
	_, err = w.list(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, calls, "no change, no call")
}

// TestWatch_RecreatedInOneList: the removal of a Spec comes before another Spec with its name.
func TestWatch_RecreatedInOneList(t *testing.T) {
	d, ctx := directory(t), t.Context()
	before := named("orders")
	require.NoError(t, d.Create(ctx, before))
	var got []Change
	w := &watcher{Directory: d, apply: func(all []Change) { got = append(got, all...) }}
	_, err := w.list(ctx)
	require.NoError(t, err)
	_, err = d.Client.Txn(ctx).Then(clientv3.OpDelete(d.SpecKey(before.ID)), clientv3.OpDelete(d.key("orders"))).Commit()
	require.NoError(t, err)
	after := named("orders")
	require.NoError(t, d.Create(ctx, after))
	got = nil
	_, err = w.list(ctx)
	require.NoError(t, err)
	require.Equal(t, []Change{{ID: before.ID}, {ID: after.ID, Created: got[1].Created, Spec: after}}, got)
}

// TestSpecs_OneKeyOfTwoKinds: Create stores no Spec that keys.Set refuses.
func TestSpecs_OneKeyOfTwoKinds(t *testing.T) {
	d, s := directory(t), named("orders")
	s.Keys = []Key{{Hash: accesskey.HashOf("k"), Kind: keys.Agent}, {Hash: accesskey.HashOf("k"), Kind: keys.ReadOnly}}
	require.ErrorIs(t, d.Create(t.Context(), s), ErrSpec)
}
