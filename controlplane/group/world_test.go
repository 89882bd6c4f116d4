package group_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/group"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/internal/pattern"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
	"github.com/freshet-io/freshet/objstore/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a virtual cluster whose owner can change.
type world struct {
	t           testing.TB
	store       *memlog.Store
	bucket      *mem.Bucket
	settings    group.Settings
	tenures     int
	patterns    *pattern.Queue
	memberBytes int64
	registry    *prometheus.Registry
	limits      metadata.Limits           // of the owners to come
	stands      atomic.Pointer[time.Time] // what command time stands at, nil: it goes by the clock

	*tenure
}

// tenure is one owner with its coordinator.
type tenure struct {
	log         *memlog.Replica
	owner       *faultyOwner
	coordinator *group.Coordinator
	end         func()
}

// faultyOwner can refuse commands, and have a full queue.
type faultyOwner struct {
	*owner.Owner
	mu     sync.Mutex
	refuse func(metadata.Command) error
	room   chan struct{} // of the queue, closed when there is some; nil: there is
	turns  atomic.Int64  // how often room was found
}

func (o *faultyOwner) Enqueue(ctx context.Context, c metadata.Command) (*owner.Proposal, error) {
	if err := o.take(ctx, c); err != nil {
		return nil, err
	}
	return o.Owner.Enqueue(ctx, c)
}

// EnqueueRun refuses by the first command.
func (o *faultyOwner) EnqueueRun(ctx context.Context, cmds []metadata.Command) ([]*owner.Proposal, error) {
	if err := o.take(ctx, cmds[0]); err != nil {
		return nil, err
	}
	return o.Owner.EnqueueRun(ctx, cmds)
}

// take waits for room and counts the turn.
func (o *faultyOwner) take(ctx context.Context, c metadata.Command) error {
	o.mu.Lock()
	refuse, room := o.refuse, o.room
	o.mu.Unlock()
	if room == nil {
		room = closed
	}
	select {
	case <-room:
	default:
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	o.turns.Add(1)
	if refuse == nil {
		return nil
	}
	return refuse(c)
}

// refuseUpdates makes the owner refuse the writes of groups, or take them again.
func (o *faultyOwner) refuseUpdates(err error) {
	o.refuseBy(func(c metadata.Command) error {
		if _, ok := c.(*metadata.UpdateGroup); ok {
			return err
		}
		return nil
	})
}

// refuseBy makes the owner refuse the commands for which refuse returns an error.
func (o *faultyOwner) refuseBy(refuse func(metadata.Command) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refuse = refuse
}

// closed is the room of a queue that is not full.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// fill makes the owner's queue full until the function that it gives is called.
func (o *faultyOwner) fill() (free func()) {
	room := make(chan struct{})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.room = room
	return func() { close(room) }
}

// inWorld runs fn in a bubble, on a world with the topics t (3 partitions) and u (1).
func inWorld(t *testing.T, settings group.Settings, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, settings)
		defer func() { w.end() }()
		fn(w)
	})
}

func newWorld(t testing.TB, settings group.Settings) *world {
	t.Helper()
	w := &world{t: t, store: memlog.New(), bucket: mem.New(), settings: settings, patterns: new(pattern.Queue), registry: prometheus.NewRegistry()}
	w.begin()
	w.create("t", 3)
	w.create("u", 1)
	return w
}

// now is the time of commands.
func (w *world) now() time.Time {
	if at := w.stands.Load(); at != nil {
		return *at
	}
	return time.Now()
}

// begin starts a tenure.
func (w *world) begin() {
	w.t.Helper()
	w.tenures++
	name := "r" + string(rune('0'+w.tenures))
	log, faults, err := w.store.Open(name, metalog.Config{})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	over, endTenure := context.WithCancel(context.Background())
	began := make(chan *tenure, 1)
	r, err := replica.New(replica.Config{
		Replica: name, Address: name + ":1", Log: log, Bucket: w.bucket, SnapshotPrefix: "s/", ClusterID: "the-cluster",
		Owner: owner.Config{Now: w.now}, Limits: func() metadata.Limits { return w.limits },
		OnOwner: func(o *owner.Owner) func() {
			tn := &tenure{log: faults, owner: &faultyOwner{Owner: o}}
			var err error
			tn.coordinator, err = group.New(group.Config{Settings: w.settings, Patterns: w.patterns, MemberBytes: w.memberBytes, Registerer: w.registry}, tn.owner, func(fn func(context.Context)) bool {
				if over.Err() != nil {
					return false
				}
				work.Go(func() { fn(over) })
				return true
			})
			if err != nil {
				panic(err)
			}
			began <- tn
			return func() {
				endTenure()
				work.Wait()
			}
		},
	})
	require.NoError(w.t, err)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	w.tenure = <-began
	w.tenure.end = func() {
		cancel()
		require.NoError(w.t, <-ended)
		endTenure()
	}
}

// changeOwner ends the tenure and begins another.
func (w *world) changeOwner() {
	w.t.Helper()
	w.end()
	w.begin()
}

func (w *world) propose(command metadata.Command) metadata.Result {
	w.t.Helper()
	result, _, err := w.owner.Propose(w.t.Context(), command)
	require.NoError(w.t, err)
	require.NoError(w.t, result.Err)
	return result
}

func (w *world) create(name string, partitions int32) {
	w.t.Helper()
	c := &metadata.CreateTopic{Name: name, Partitions: partitions}
	copy(c.ID[:], name)
	w.propose(c)
}

// topicID is the id that create gives.
func topicID(name string) (id [16]byte) {
	copy(id[:], name)
	return id
}

// read looks at the state.
func (w *world) read(fn func(s *metadata.State)) {
	w.t.Helper()
	_, err := w.owner.Read(fn)
	require.NoError(w.t, err)
}

var errNoAnswer = errors.New("no answer yet")

// send starts a request; the function it gives has the answer, or errNoAnswer.
func send[Out kmsg.Response](w *world, in kmsg.Request, version int16) func() (Out, error) {
	w.t.Helper()
	in.SetVersion(version)
	var mu sync.Mutex
	var body []byte
	err := errNoAnswer
	w.coordinator.Start(context.Background(), &api.Forward{
		ApiKey: int32(in.Key()), ApiVersion: int32(version), Body: in.AppendTo(nil), ClientId: "client", Host: "10.0.0.1",
	}, func(b []byte, e error) {
		mu.Lock()
		defer mu.Unlock()
		require.ErrorIs(w.t, err, errNoAnswer, "answered once")
		body, err = b, e
	})
	return func() (out Out, e error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			return out, err
		}
		response := in.ResponseKind()
		response.SetVersion(version)
		require.NoError(w.t, response.ReadFrom(body))
		return response.(Out), nil
	}
}

// ask is send and the answer.
func ask[Out kmsg.Response](w *world, in kmsg.Request, version int16) Out {
	w.t.Helper()
	answer := send[Out](w, in, version)
	for range 1000 {
		out, err := answer()
		if !errors.Is(err, errNoAnswer) {
			require.NoError(w.t, err)
			return out
		}
		time.Sleep(10 * time.Millisecond) // the bubble's time
	}
	require.Fail(w.t, "no answer", kmsg.NameForKey(in.Key()))
	panic("unreachable")
}

// askAgain is ask, and sends a request without an answer again, as agents do.
func askAgain[Out kmsg.Response](w *world, in kmsg.Request, version int16) Out {
	w.t.Helper()
	answer := send[Out](w, in, version)
	for range 1000 {
		out, err := answer()
		if err == nil {
			return out
		}
		time.Sleep(10 * time.Millisecond) // the bubble's time
		if !errors.Is(err, errNoAnswer) {
			answer = send[Out](w, in, version)
		}
	}
	require.Fail(w.t, "no answer", kmsg.NameForKey(in.Key()))
	panic("unreachable")
}

// member is one member of a classic group.
type member struct {
	group, id  string
	generation int32
}

// join has a first member form a generation of its own.
func (w *world) join(name string) *member {
	w.t.Helper()
	m := &member{group: name}
	require.Zero(w.t, m.lead(w))
	return m
}

// lead has the leader of a group join, and gives all members the same assignment. It returns the code of SyncGroup.
func (m *member) lead(w *world) int16 {
	w.t.Helper()
	out := ask[*kmsg.JoinGroupResponse](w, m.joinRequest(), 3)
	require.Zero(w.t, out.ErrorCode)
	m.id, m.generation = out.MemberID, out.Generation
	in := m.syncRequest()
	for _, of := range out.Members {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = of.MemberID, assignment("t", 0, 1, 2)
		in.GroupAssignment = append(in.GroupAssignment, a)
	}
	return askAgain[*kmsg.SyncGroupResponse](w, in, 3).ErrorCode
}

func (m *member) syncRequest() *kmsg.SyncGroupRequest {
	in := kmsg.NewPtrSyncGroupRequest()
	in.Group, in.MemberID, in.Generation = m.group, m.id, m.generation
	return in
}

func (m *member) joinRequest() *kmsg.JoinGroupRequest {
	in := kmsg.NewPtrJoinGroupRequest()
	in.Group, in.MemberID, in.ProtocolType = m.group, m.id, "consumer"
	in.SessionTimeoutMillis, in.RebalanceTimeoutMillis = 10_000, 60_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", subscription("t")
	in.Protocols = append(in.Protocols, p)
	return in
}

// subscription is a consumer's metadata.
func subscription(topics ...string) []byte {
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = topics
	return meta.AppendTo(nil)
}

// assignment is what the leader gives a consumer.
func assignment(topic string, partitions ...int32) []byte {
	a := kmsg.NewConsumerMemberAssignment()
	t := kmsg.NewConsumerMemberAssignmentTopic()
	t.Topic, t.Partitions = topic, partitions
	a.Topics = append(a.Topics, t)
	return a.AppendTo(nil)
}

func (m *member) heartbeat(w *world) int16 {
	w.t.Helper()
	in := kmsg.NewPtrHeartbeatRequest()
	in.Group, in.MemberID, in.Generation = m.group, m.id, m.generation
	return ask[*kmsg.HeartbeatResponse](w, in, 3).ErrorCode
}

func (m *member) leave(w *world) {
	w.t.Helper()
	in := kmsg.NewPtrLeaveGroupRequest()
	in.Group, in.MemberID = m.group, m.id
	require.Zero(w.t, ask[*kmsg.LeaveGroupResponse](w, in, 2).ErrorCode)
}
