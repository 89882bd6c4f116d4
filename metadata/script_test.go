package metadata

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestScripts runs the scripts of testdata. Every command is applied to a state, to a replica that gets it through
// the codec, and to a state restored from a snapshot taken just before; results and hashes must be equal. It is then
// applied once more to a restored copy, which must change nothing where commands are to take effect once.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		w := &world{state: newMachine(), replica: newMachine(), now: 1_000_000}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return w.run(t, d) })
	})
}

type world struct {
	state, replica *machine
	now            int64
	index          uint64
}

func (w *world) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "time":
		var ms int64
		d.ScanArgs(t, "advance", &ms)
		w.now += ms
		return ""
	case "topic":
		c := &CreateTopic{ID: topicID(cmp.Or(arg(d, "id"), name(t, d))), Name: name(t, d), Partitions: int32(num(t, d, "partitions", 1))}
		c.ReplicationFactor, c.Configs = int16(num(t, d, "factor", 0)), pairs(d, "config")
		return w.apply(t, c)
	case "delete-topic":
		return w.apply(t, &DeleteTopic{ID: topicID(name(t, d)), KeepMs: num(t, d, "keep", 0)})
	case "undelete-topic":
		return w.apply(t, &UndeleteTopic{ID: topicID(name(t, d)), Name: arg(d, "as")})
	case "purge-topic":
		return w.apply(t, &PurgeTopics{Topics: []PurgedTopic{{ID: topicID(name(t, d)), Index: uint64(num(t, d, "deleted", 0))}}})
	case "sweep":
		return w.apply(t, &RecordSweep{Writers: []id.Session{id.Session(num(t, d, "writer", 0))}})
	case "partitions":
		return w.apply(t, &CreatePartitions{ID: topicID(name(t, d)), Count: int32(num(t, d, "count", 0))})
	case "factor":
		return w.apply(t, &SetReplicationFactor{ID: topicID(name(t, d)), Factor: int16(num(t, d, "is", 0))})
	case "configs":
		c := &SetConfigs{Resource: ConfigBroker, Set: pairs(d, "set"), Delete: list(d, "delete")}
		if d.HasArg("topic") {
			c.Resource, c.Topic = ConfigTopic, topicID(name(t, d))
		}
		return w.apply(t, c)
	case "open":
		c := &OpenSession{Instance: arg(d, "instance"), Zone: arg(d, "zone"), Version: "test"}
		for i, h := range list(d, "hosts") {
			c.Endpoints = append(c.Endpoints, Endpoint{Host: h, Port: int32(9092 + i)})
		}
		return w.apply(t, c)
	case "drain":
		return w.apply(t, &DrainSession{Session: id.Session(num(t, d, "session", 0))})
	case "hide":
		return w.apply(t, &HideSession{Session: id.Session(num(t, d, "session", 0)), Hidden: arg(d, "hidden") != "no"})
	case "close":
		return w.apply(t, &CloseSession{Session: id.Session(num(t, d, "session", 0))})
	case "commit":
		return w.apply(t, &CommitBundle{Encoded: parseCommit(t, d, w.index)})
	case "abandon":
		return w.apply(t, &AbandonSubmission{Submission: submission(t, d)})
	case "producer-ids":
		return w.apply(t, &AllocateProducerIDs{Count: int32(num(t, d, "count", 0))})
	case "trim":
		c := &TrimPartitions{}
		for _, line := range strings.Split(d.Input, "\n") {
			f := strings.Fields(line)
			c.Trims = append(c.Trims, Trim{Partition: partitionID(t, f[0]), Offset: atoi(t, f[1])})
		}
		return w.apply(t, c)
	case "forget":
		c := &ForgetBundles{}
		for _, n := range list(d, "n") {
			c.Bundles = append(c.Bundles, id.Submission{Session: 1, N: uint32(atoi(t, n))}.Bundle())
		}
		return w.apply(t, c)
	case "tick":
		return w.apply(t, &Tick{})
	case "bootstrap":
		return w.apply(t, &Bootstrap{ClusterID: arg(d, "cluster")})
	case "limits":
		c := &SetLimits{}
		for kind := range c.Limits {
			c.Limits[kind] = num(t, d, LimitKind(kind).String(), 0)
		}
		return w.apply(t, c)
	case "use-bucket":
		return w.apply(t, &UseBucket{Bucket: arg(d, "id")})
	case "raise-version":
		return w.apply(t, &RaiseVersion{Version: uint32(num(t, d, "version", 0))})
	}
	if out, ok := w.runTransaction(t, d); ok {
		return out
	}
	if out, ok := w.runGroup(t, d); ok {
		return out
	}
	if out, ok := w.runJob(t, d); ok {
		return out
	}
	return w.show(t, d)
}

// apply applies one command everywhere and describes what came of it.
func (w *world) apply(t *testing.T, c Command) string {
	t.Helper()
	w.index++
	b := &Batch{Now: w.now, Commands: []Command{c}}
	encoded := AppendBatch(nil, b)
	parsed, err := ParseBatch(encoded)
	require.NoError(t, err)
	require.Equal(t, encoded, AppendBatch(nil, parsed))

	restored := restore(t, w.state)
	var fx, fx2 Effects
	res := w.state.Apply(w.index, b, &fx, nil)
	require.Equal(t, res, w.replica.Apply(w.index, parsed, &fx2, nil))
	require.Equal(t, res, restored.Apply(w.index, b, nil, nil))
	require.Equal(t, fx, fx2)
	require.Equal(t, w.state.Hash(), w.replica.Hash(), "replica")
	require.Equal(t, w.state.Hash(), restored.Hash(), "restored")
	require.Equal(t, contentOf(w.state), contentOf(restored), "restored")
	w.again(t, b, res[0])
	return describe(w.state, res[0], &fx)
}

// contentOf returns a state's load without the items of the cleanup queue, whose number differs in a restored state.
func contentOf(s interface{ Load() Load }) Load {
	l := s.Load()
	l.Cleanup, l.CleanupBytes = 0, 0
	return l
}

// again applies the batch a second time to a copy: once is enough (I3).
func (w *world) again(t *testing.T, b *Batch, first Result) {
	t.Helper()
	c := restore(t, w.state)
	second := c.Apply(w.index+1, b, nil, nil)[0]
	c.index = w.index
	switch cmd := b.Commands[0].(type) {
	case *Tick, *AllocateProducerIDs:
		return
	case *SetConfigs:
	case *CommitBundle:
		if h, err := commit.ParseHeader(cmd.Encoded); err == nil && !h.Resubmit {
			require.Equal(t, first, second)
		}
	case *OpenSession, *CloseSession, *AbandonSubmission, *TrimPartitions, *AddPartitions, *AddOffsets, *EndTransaction:
		require.Equal(t, first, second)
	case *StartJob:
		return // opens another
	case *InitTransaction, *WriteMarkers, *CommitOffsets:
		return // raises the epoch, writes another marker, stores later offsets
	}
	require.Equal(t, w.state.Hash(), c.Hash(), "applied twice")
}

func restore(t *testing.T, s *machine) *machine {
	t.Helper()
	var buf bytes.Buffer
	require.NoError(t, s.snapshot().Encode(&buf))
	c, err := decode(&buf)
	require.NoError(t, err)
	return c
}

func describe(s *machine, r Result, fx *Effects) string {
	var b strings.Builder
	if r.Err != nil {
		fmt.Fprintf(&b, "error: %v\n", r.Err)
	}
	switch v := r.Value.(type) {
	case nil:
	case *commit.Result:
		describeResult(&b, v)
	case []TrimResult:
		for _, t := range v {
			fmt.Fprintf(&b, "log start %d", t.LogStart)
			if t.Err != nil {
				fmt.Fprintf(&b, ": %v", t.Err)
			}
			b.WriteString("\n")
		}
	case OpenSessionResult:
		fmt.Fprintf(&b, "session %d nodes %v\n", v.Session, v.NodeIDs)
	default:
		if !describeValue(&b, v) {
			fmt.Fprintf(&b, "%v\n", v)
		}
	}
	for _, t := range fx.Topics {
		fmt.Fprintf(&b, "effect: topic %s\n", topicName(t))
	}
	if fx.Configs {
		b.WriteString("effect: configs\n")
	}
	if fx.Internal {
		fmt.Fprintf(&b, "effect: groups %t, transactions %t\n", s.HasGroups(), s.HasTransactions())
	}
	if fx.Members {
		fmt.Fprintf(&b, "effect: membership %d\n", s.MembershipVersion())
	}
	for _, n := range fx.Closed {
		fmt.Fprintf(&b, "effect: session %d closed\n", n)
	}
	for _, p := range fx.Partitions {
		fmt.Fprintf(&b, "effect: %s/%d [%d, %d)", topicName(p.Partition.Topic), p.Partition.Partition, p.LogStart, p.HighWatermark)
		if p.LastStable != p.HighWatermark {
			fmt.Fprintf(&b, " stable %d", p.LastStable)
		}
		for _, x := range p.Extents {
			b.WriteString(" " + describeExtent(&x))
		}
		for _, a := range p.Aborted {
			b.WriteString(" " + describeAborted(a))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func describeResult(b *strings.Builder, r *commit.Result) {
	fmt.Fprintf(b, "%s\n", [...]string{"settled", "session closed", "abandoned", "forgotten"}[r.Status])
	for _, sec := range r.Sections {
		fmt.Fprintf(b, "  log start %d:", sec.LogStart)
		for i, s := range sec.Spans {
			if i > 0 {
				b.WriteString(",")
			}
			names := [...]string{"accepted", "duplicate", "gap", "fenced", "out-of-order", "no-partition", "invalid-txn"}
			fmt.Fprintf(b, " %s", names[s.Outcome])
			if s.Batches > 1 {
				fmt.Fprintf(b, " x%d", s.Batches)
			}
			if s.Outcome == commit.Accepted || s.Outcome == commit.Duplicate {
				fmt.Fprintf(b, " @%d", s.Base)
			}
		}
		b.WriteString("\n")
	}
}

func describeExtent(x *extent.Extent) string {
	if x.Kind == extent.Marker {
		return describeMarker(x)
	}
	return fmt.Sprintf("{%d-%d in %s at %d+%d batches %d time %d}",
		x.Base, x.Last, x.Bundle, x.Position, x.Length, x.Batches, x.MaxTimestamp)
}

func (w *world) show(t *testing.T, d *datadriven.TestData) string {
	s := w.state.snapshot()
	var b strings.Builder
	switch d.Cmd {
	case "show-topics":
		for tp := range s.Topics() {
			fmt.Fprintf(&b, "%s partitions %d replicas %d configs %v\n", tp.Name, tp.Partitions, tp.ReplicationFactor, tp.Configs)
		}
	case "show-limits":
		limits, used := s.Limits()
		for kind := range limits {
			if limits[kind] > 0 {
				fmt.Fprintf(&b, "%s: %d of %d\n", LimitKind(kind), used[kind], limits[kind])
			}
		}
	case "show-bucket":
		fmt.Fprintf(&b, "%q, session open: %t\n", s.RecordsBucket(), s.HasOpenSession())
	case "show-configs":
		fmt.Fprintf(&b, "%v\n", s.Configs(ConfigBroker, ""))
	case "show-sessions":
		for e := range s.Sessions() {
			fmt.Fprintf(&b, "%d %s zone %s nodes %v next %d draining %t closed %t", e.ID, e.Instance, e.Zone, e.NodeIDs, e.NextN, e.Draining, e.Closed)
			b.WriteString("\n")
		}
	case "show-emptied-zones":
		for e := range s.EmptiedZones() {
			fmt.Fprintf(&b, "%s: session %d\n", e.Zone, e.ID)
		}
	case "show-partition":
		tp := partitionID(t, d.CmdArgs[0].Key)
		wm, ok := s.Watermarks(tp)
		fmt.Fprintf(&b, "exists %t log start %d high watermark %d last stable %d bytes %d\n",
			ok, wm.LogStart, wm.HighWatermark, wm.LastStable, s.PartitionBytes(tp))
		exts, more := s.Extents(tp, num(t, d, "from", 0), int(num(t, d, "max", 0)), num(t, d, "max-bytes", 0))
		for i := range exts {
			fmt.Fprintf(&b, "%s\n", describeExtent(&exts[i]))
		}
		if more {
			b.WriteString("more\n")
		}
	case "show-producers":
		p, _ := s.partitionEntry(partitionID(t, d.CmdArgs[0].Key))
		p.producers.Scan(func(n int64, q producer) bool {
			fmt.Fprintf(&b, "%d epoch %d next %d base %d records %v\n", n, q.epoch, q.next, q.base, q.records[:q.kept])
			return true
		})
		if p.resting != nil {
			p.resting.Scan(func(n int64, r resting) bool {
				fmt.Fprintf(&b, "%d epoch %d next %d at rest\n", n, r.epoch, r.next)
				return true
			})
		}
	case "show-time":
		tp := partitionID(t, d.CmdArgs[0].Key)
		x, ok := s.FindTimestamp(tp, 0, num(t, d, "ts", 0))
		fmt.Fprintf(&b, "at or after: %t %s\n", ok, describeExtent(&x))
		x, ok = s.MaxTimestampExtent(tp, 0, math.MaxInt64)
		fmt.Fprintf(&b, "max: %t %s\n", ok, describeExtent(&x))
	case "show-retained":
		r := Retention{SinceMs: num(t, d, "since", KeepForever), Bytes: num(t, d, "bytes", KeepForever)}
		fmt.Fprintf(&b, "from %d\n", s.RetainedFrom(partitionID(t, d.CmdArgs[0].Key), r))
	case "show-bundles":
		s.bundles.Scan(func(n id.Bundle, l liveBundle) bool {
			fmt.Fprintf(&b, "%s of %d live %d extents %d bytes\n", n, l.bytes, l.extents, l.liveBytes)
			return true
		})
		for n, dead := range s.DeadBundles() {
			fmt.Fprintf(&b, "%s of %d dead since entry %d\n", n, dead.Bytes, dead.Index)
		}
	case "show-deleted":
		for x := range s.DeletedTopics() {
			fmt.Fprintf(&b, "%s %s: by entry %d at %d for %d ms, %d bytes\n", topicName(x.ID), x.Name, x.Index, x.AtMs, x.KeepMs, x.Bytes)
		}
	case "show-ended":
		for x := range s.EndedWriters() {
			fmt.Fprintf(&b, "%d from %d to %d job %t next %d\n", x.ID, x.OpenedMs, x.EndedMs, x.Job, x.NextN)
		}
	case "show-settled":
		r, ok := s.Settled(submission(t, d))
		fmt.Fprintf(&b, "%t\n", ok)
		if ok {
			describeResult(&b, r)
		}
	case "show-sequence":
		next, ok := s.ProducerSequence(partitionID(t, d.CmdArgs[0].Key), num(t, d, "pid", 0), int16(num(t, d, "epoch", 0)))
		fmt.Fprintf(&b, "next %d known %t\n", next, ok)
	default:
		t.Fatalf("unknown command %q", d.Cmd)
	}
	return b.String()
}

// parseCommit reads lines "section topic/partition [at=position]" and "batch records=… bytes=… ts=… [pid=… epoch=…
// seq=…] [txn [as-of=…] | txn2]". A batch of protocol 1 is as of the newest index unless it says otherwise.
func parseCommit(t *testing.T, d *datadriven.TestData, index uint64) []byte {
	t.Helper()
	h := commit.Header{
		Submission: submission(t, d), Acked: uint32(num(t, d, "acked", 0)),
		Bytes: uint32(num(t, d, "bytes", 10_000)), Resubmit: d.HasArg("resubmit"),
	}
	var b commit.Builder
	b.Reset(h)
	position := uint32(16)
	for _, line := range strings.Split(d.Input, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if f[0] == "section" {
			if len(f) > 2 {
				position = uint32(atoi(t, strings.TrimPrefix(f[2], "at=")))
			}
			b.Section(commit.Section{Partition: partitionID(t, f[1]), Position: position})
			continue
		}
		a := commit.Batch{Records: 1, Bytes: 100, MaxTimestamp: -1, ProducerID: commit.NoProducer}
		for _, kv := range f[1:] {
			k, v, _ := strings.Cut(kv, "=")
			switch k {
			case "records":
				a.Records = int32(atoi(t, v))
			case "bytes":
				a.Bytes = int32(atoi(t, v))
			case "ts":
				a.MaxTimestamp = atoi(t, v)
			case "pid":
				a.ProducerID = atoi(t, v)
			case "epoch":
				a.ProducerEpoch = int16(atoi(t, v))
			case "seq":
				a.BaseSequence = int32(atoi(t, v))
			case "txn": // of protocol 1
				a.Transactional, a.TransactionVersion, a.AsOf = true, ProtocolOne, index
			case "txn2":
				a.Transactional, a.TransactionVersion = true, ProtocolTwo
			case "as-of":
				a.AsOf = uint64(atoi(t, v))
			default:
				t.Fatalf("batch field %q", kv)
			}
		}
		b.Batch(a)
		position += uint32(a.Bytes)
	}
	return b.AppendTo(nil)
}

func topicID(name string) (t id.Topic) {
	copy(t[:], name)
	return t
}

func topicName(t id.Topic) string { return strings.TrimRight(string(t[:]), "\x00") }

func partitionID(t *testing.T, s string) id.TopicPartition {
	t.Helper()
	n, p, ok := strings.Cut(s, "/")
	require.True(t, ok, "partition %q", s)
	return id.TopicPartition{Topic: topicID(n), Partition: int32(atoi(t, p))}
}

func submission(t *testing.T, d *datadriven.TestData) id.Submission {
	return id.Submission{Session: id.Session(num(t, d, "session", 1)), N: uint32(num(t, d, "n", 0))}
}

func atoi(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(t, err)
	return n
}

func arg(d *datadriven.TestData, key string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return ""
}

func name(t *testing.T, d *datadriven.TestData) string {
	if n := arg(d, "topic"); n != "" {
		return n
	}
	return arg(d, "name")
}

func num(t *testing.T, d *datadriven.TestData, key string, otherwise int64) int64 {
	t.Helper()
	if v := arg(d, key); v != "" {
		return atoi(t, v)
	}
	return otherwise
}

func list(d *datadriven.TestData, key string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return a.Vals
		}
	}
	return nil
}

// pairs reads key=(a:b,c:d).
func pairs(d *datadriven.TestData, key string) map[string]string {
	var m map[string]string
	for _, v := range list(d, key) {
		if m == nil {
			m = make(map[string]string)
		}
		k, x, _ := strings.Cut(v, ":")
		m[k] = x
	}
	return m
}
