package metadata

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// outsideSnapshots are the fields that a snapshot need not have, and why.
var outsideSnapshots = map[string]string{
	"machine.gen": "generation", "machine.frozen": "of this copy", "machine.position": "within an entry", "machine.scratch": "memory",
	"machine.passed": "of readers",
	"machine.names":  "derived", "machine.instances": "derived", "machine.load": "derived", "machine.counts": "derived", "machine.bounds.resting": "derived",
	"topic.counts": "derived", "partition.active": "derived", "partition.idle": "derived",
	"machine.transactions.names": "derived", "machine.transactions.due": "derived", "machine.deletions": "derived", "machine.deletedNames": "derived",
	"machine.cleanup.next": "only the order of keys means something", "machine.cleanup.bytes": "derived",
	"session.gen": "generation", "topic.gen": "generation", "partition.gen": "generation", "transaction.gen": "generation",
	"group.gen": "generation", "offsets.gen": "generation", "topic.topic": "a record of its own", "open.first": "derived",
	"topic.deletion": "a record of its own", "offsets.pendingCount": "derived", "offsets.pendingBytes": "derived", "offsets.noteBytes": "derived", "machine.transactions.bytes": "derived",
	"machine.transactions.added": "derived", "machine.transactions.text": "derived", "transaction.groupBytes": "derived",
}

// tables are the fields that hold records, or values with a codec of their own.
var tables = map[string]bool{
	"machine.topics": true, "machine.configs": true, "machine.gone": true, "machine.sessions": true,
	"machine.bundles": true, "machine.dead": true, "machine.transactions.byProducer": true, "machine.jobs": true,
	"machine.ended": true, "job.clean": true, "machine.groups": true, "machine.cleanup.items": true,
	"session.results": true, "topic.partitions": true, "partition.extents": true, "partition.producers": true,
	"partition.resting": true, "partition.transactions": true, "open.open": true, "open.aborted": true,
	"transaction.partitions": true, "transaction.groups": true, "group.members": true, "group.topics": true,
	"offsets.offsets": true, "offsets.notes": true, "offsets.pending": true, "metadata.Configs": true,
}

var topicOfAll = id.Topic{7}

// one gives a state with one of each kind of record, all of whose fields count.
func one() *machine {
	s := newMachine()
	s.sweep.topic, s.offsetSweep.group = "a", "g"
	s.nextSession, s.nextProducerID = 10, 10
	s.bounds.active = 7
	s.limits = Limits{1, 2, 3, 4, 5, 6, 7}
	s.bucket = "b"
	s.configs.Set(configKey(ConfigBroker, "1"), map[string]string{"k": "v"})
	s.gone.Set("gone", 1)
	var left extent.Tree
	left.Append(1, extent.Extent{Base: 1, Last: 2, Batches: 1, Length: 1})
	s.cleanup.push(cleanupItem{extents: left})
	p := &partition{logStart: 1, high: 100, cleaned: 5, producers: newProducers(), resting: newResting()}
	p.extents.Append(1, extent.Extent{Base: 1, Last: 99, Batches: 1, Length: 1})
	p.forgotten = []idRange{{8, 9}}
	active := producer{kept: window}
	for i := range active.records {
		active.records[i] = 1
	}
	p.producers.Set(3, active)
	p.resting.Set(4, resting{next: 1})
	p.transactions = new(partitionTransactions)
	p.openTransaction(3, 50)
	p.transactions.aborted.Set(40, abortedTransaction{producerID: 3, first: 30})
	e := &topicEntry{earlier: 2, topic: &Topic{ID: topicOfAll, Name: "t", Partitions: 1, ReplicationFactor: 3, Configs: map[string]string{"k": "v"}}}
	e.partitions.Set(0, p)
	s.topics.Set(topicKey(topicOfAll), e)
	d := &topicEntry{topic: &Topic{ID: id.Topic{8}, Name: "d", Partitions: 1, ReplicationFactor: 3}, deletion: &deletion{order: 1, keep: 1}}
	s.topics.Set(topicKey(d.topic.ID), d)
	n := &session{endpoints: []Endpoint{{Host: "h"}}, nodeIDs: []int32{1}, roles: RoleJobs, peer: "p", nextN: 2}
	n.results.Set(1, resultAbandoned)
	s.sessions.Set(1, n)
	s.bundles.Set(1, liveBundle{extents: 1})
	s.dead.Set(2, DeadBundle{})
	s.jobs.Set(3, &openJob{kind: job.Clean, runner: 1, inputs: []id.Bundle{1}, clean: &job.Bounds{From: 2, FirstDirty: 4, To: 8}})
	s.ended.Set(4, endedWriter{ended: 1})
	x := &transaction{id: "x", producerID: 3, state: TransactionOngoing, groups: new(btree.Map[string, uint64])}
	s.addPartition(x, id.TopicPartition{Topic: topicOfAll})
	s.addGroup(x, "g")
	s.transactions.add(x)
	g := &groupEntry{kind: GroupConsumer, head: []byte("h")}
	g.members.Set("m", []byte("v"))
	o := &topicOffsets{}
	o.set(0, offset{}, offsetNote{metadata: "m"})
	o.addPending(0, pendingOffset{note: offsetNote{metadata: "m"}})
	g.topics.Set(topicKey(topicOfAll), o)
	s.groups.Set("g", g)
	return s
}

// record is one record of a state: a pointer to it, and what puts it back where it is kept by value.
type record struct {
	at  any
	put func()
}

func first[K comparable, V any](m interface{ Scan(fn func(K, V) bool) }) (k K, v V) {
	m.Scan(func(key K, value V) bool { k, v = key, value; return false })
	return k, v
}

// table is a table that keeps values.
type table[K comparable, V any] interface {
	Scan(fn func(K, V) bool)
	Set(k K, v V) (V, bool)
}

// byValue is a record of such a table.
func byValue[K comparable, V any](m table[K, V]) record {
	k, v := first(m)
	return record{at: &v, put: func() { m.Set(k, v) }}
}

// everyRecord gives every kind of record.
func everyRecord(s *machine) map[string]record {
	kept := func(at any) record { return record{at: at, put: func() {}} }
	_, e := first(&s.topics)
	deleted, _ := s.topics.Get(topicKey(id.Topic{8}))
	_, p := first(&e.partitions)
	_, n := first(&s.sessions)
	_, j := first(&s.jobs)
	_, x := first(&s.transactions.byProducer)
	_, g := first(&s.groups)
	_, o := first(&g.topics)
	pending, _ := o.pending.Get(0)
	added, _ := x.partitions.Min()
	return map[string]record{
		"machine": kept(s), "topic": kept(e), "metadata": kept(e.topic), "partition": kept(p), "session": kept(n), "job": kept(j), "bounds": kept(j.clean),
		"transaction": kept(x), "group": kept(g), "offsets": kept(o), "open": kept(p.transactions), "pending": kept(&pending[0]),
		"producer": byValue(&p.producers), "resting": byValue(p.resting), "aborted": byValue(&p.transactions.aborted),
		"bundle": byValue(&s.bundles), "dead": byValue(&s.dead), "ended": byValue(&s.ended), "deletion": kept(deleted.deletion),
		"offset": byValue(&o.offsets), "note": byValue(o.notes), "added": {at: &added, put: func() { x.partitions.Set(added) }},
	}
}

// leaf is a field, by its name and by what changes it in any record of its type.
type leaf struct {
	name   string
	change func(record reflect.Value)
}

// leaves gives the fields of a type that are to be in snapshots.
func leaves(t *testing.T, name string, typ reflect.Type, in func(reflect.Value) reflect.Value) (all []leaf) {
	t.Helper()
	if _, outside := outsideSnapshots[name]; outside || tables[name] {
		return nil
	}
	switch {
	case typ.Kind() == reflect.Struct && !strings.HasPrefix(typ.String(), "btree."):
		for i := range typ.NumField() {
			field := func(v reflect.Value) reflect.Value {
				f := in(v).Field(i)
				return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem() // settable though unexported
			}
			all = append(all, leaves(t, name+"."+typ.Field(i).Name, typ.Field(i).Type, field)...)
		}
		return all
	case typ.Kind() == reflect.Array:
		for i := range typ.Len() {
			element := func(v reflect.Value) reflect.Value { return in(v).Index(i) }
			all = append(all, leaves(t, fmt.Sprintf("%s[%d]", name, i), typ.Elem(), element)...)
		}
		return all
	case typ.Kind() == reflect.Slice:
		return leaves(t, name+"[0]", typ.Elem(), func(v reflect.Value) reflect.Value { return in(v).Index(0) })
	}
	return []leaf{{name, func(v reflect.Value) { disturb(t, name, in(v)) }}}
}

// disturb gives a field another value.
func disturb(t *testing.T, name string, f reflect.Value) {
	t.Helper()
	switch f.Kind() {
	case reflect.Bool:
		f.SetBool(!f.Bool())
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		f.SetInt(f.Int() ^ 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		f.SetUint(f.Uint() ^ 1)
	case reflect.String:
		f.SetString(f.String() + "x")
	default:
		require.Failf(t, "unknown field", "%s: is it in snapshots (tables), or need it not be (outsideSnapshots)?", name)
	}
}

// TestSnapshot_HasEveryField changes each field of each kind of record by itself: the snapshot's bytes are others then. Whoever adds a
// field to the state, and not to snapshots, is told here, before two replicas differ.
func TestSnapshot_HasEveryField(t *testing.T) {
	base := one().Hash()
	require.Equal(t, base, one().Hash())
	checked := 0
	for kind, r := range everyRecord(one()) {
		for _, l := range leaves(t, kind, reflect.TypeOf(r.at).Elem(), func(v reflect.Value) reflect.Value { return v }) {
			s := one()
			changed := everyRecord(s)[kind]
			l.change(reflect.ValueOf(changed.at).Elem())
			changed.put()
			require.NotEqual(t, base, s.Hash(), "%s is not in snapshots", l.name)
			checked++
		}
	}
	require.Greater(t, checked, 100)
}
