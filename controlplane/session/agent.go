package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// lastWords is how long a stream may take to flush its outbox before the owner ends it.
const lastWords = time.Second

var (
	errReplaced = errors.New("the agent opened another stream")
	errFinished = errors.New("stream finished")
)

type rpcStream = grpc.BidiStreamingServer[api.ToOwner, api.ToAgent]

// agent is one session stream of a connected agent.
type agent struct {
	t        *tenure
	session  id.Session
	out      *outbox
	cancel   context.CancelCauseFunc
	forwards *forwardQueue
	commits  *sequence    // of the session; set by attach
	stream   uint64       // its number, rising; set by attach
	zone     string       // of the session; set by welcome
	jobCalls atomic.Int32 // unanswered requests about jobs
	repeats  atomic.Bool  // the agent may repeat an answer that was not recalled
	sending  sync.Mutex   // held from outbox.take or takeSmall until the items are sent, so that they stay in order
	protocol uint32       // the agent's own
	instance string       // of Hello
	bucket   string       // id of the state's bucket when the agent's own was compared with it

	// Guarded by tenure.mu.
	since    uint64 // the agent gets catalogue changes above this index
	watching map[id.TopicPartition]struct{}
	drains   bool // sent Drain
	leaving  bool // sent Goodbye
}

// converse serves one stream until it ends.
func (t *tenure) converse(stream rpcStream, hello *api.Hello, rest []*api.AgentItem) error {
	protocol, refusal := t.agree(hello)
	var session id.Session
	var bucket string
	if refusal == nil {
		var err error
		if session, bucket, refusal, err = t.admit(stream.Context(), hello); err != nil {
			t.pause(stream.Context())
			return err
		}
	}
	if refusal != nil {
		return stream.Send(&api.ToAgent{Items: []*api.OwnerItem{refusal}})
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(errFinished)
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })()
	defer context.AfterFunc(keys.FromContext(stream.Context()).Revoked(), func() { cancel(errRevoked) })()
	a := t.newAgent(session, cancel)
	a.protocol, a.instance, a.bucket = hello.Protocol, hello.Instance, bucket
	if r, ok := stream.(*receiver); ok {
		r.slow, r.waits = func() { cancel(errTrickle) }, a.waits
	}
	defer a.out.close()
	defer t.detach(a)
	welcome, catalogue, refusal := t.welcome(a, protocol)
	first := welcome
	if refusal != nil {
		first = refusal
	}
	if err := stream.Send(&api.ToAgent{Items: []*api.OwnerItem{first}}); err != nil || welcome == nil {
		return err
	}
	t.log.Info("agent connected", zap.Uint32("session", uint32(session)), zap.String("zone", cut(hello.Zone)),
		zap.String("address", firstAddress(hello)), zap.String("version", cut(hello.Version)), zap.Bool("new", hello.Session == 0),
		zap.Stringer("key", keys.FromContext(stream.Context()).Hash))
	a.sending.Lock() // until sendCatalogue has sent the catalogue
	// The sender and the receiver end with the stream, which ends when this function returns at the latest.
	if !t.spawn(func() { a.send(ctx, stream, catalogue) }) || !t.spawn(func() { a.receive(ctx, stream, rest) }) {
		return status.Error(codes.Unavailable, errTenureOver.Error())
	}
	<-ctx.Done()
	return a.outcome(stream, context.Cause(ctx))
}

// loggedBytes is the maximum length of a text of Hello in the log.
const loggedBytes = 300

// cut returns the beginning of a text for the log.
func cut(text string) string { return text[:min(len(text), loggedBytes)] }

// firstAddress returns the address of an agent's first listener, by which operators know the agent, for the log.
func firstAddress(hello *api.Hello) string {
	for _, e := range hello.Endpoints {
		return net.JoinHostPort(cut(e.Host), strconv.Itoa(int(e.Port)))
	}
	return ""
}

// outcome returns the status that the agent gets at the end of its stream.
func (a *agent) outcome(stream rpcStream, cause error) error {
	switch {
	case errors.Is(cause, errFinished), stream.Context().Err() != nil:
		return nil //nolint:nilerr // the agent ended its stream and reads no status
	case errors.Is(cause, errSlow):
		a.t.metrics.cut.WithLabelValues(cutSlow).Inc()
		a.t.log.Warn("agent stream cut: it takes messages too slowly", zap.Uint32("session", uint32(a.session)))
		return status.Error(codes.ResourceExhausted, cause.Error())
	case errors.Is(cause, errRevoked):
		a.t.metrics.cut.WithLabelValues(cutRevoked).Inc()
		a.t.log.Warn("agent stream cut: its key was withdrawn", zap.Uint32("session", uint32(a.session)))
		return status.Error(codes.Unauthenticated, cause.Error())
	case errors.Is(cause, errTenureOver):
		a.t.metrics.cut.WithLabelValues(cutEnded).Inc()
		return status.Error(codes.Unavailable, cause.Error())
	default:
		return status.Error(codes.Aborted, cause.Error())
	}
}

func (t *tenure) newAgent(session id.Session, cancel context.CancelCauseFunc) *agent {
	a := &agent{t: t, session: session, cancel: cancel, watching: map[id.TopicPartition]struct{}{}}
	a.out = newOutbox(t.limits.OutboxBytes, cancel)
	a.forwards = newForwardQueue(a)
	return a
}

// agree returns the protocol of a new stream, or the refusal of an agent whose protocol differs by more than one from the owner's or
// a connected agent's: agents ask each other too.
func (t *tenure) agree(hello *api.Hello) (uint32, *api.OwnerItem) {
	own := t.cluster.cfg.Protocol
	protocol, ok := api.Agree(hello.Protocol, own)
	if !ok {
		return 0, t.farApart(hello, fmt.Sprintf("the control plane speaks protocol %d, this agent %d", own, hello.Protocol))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, other := range t.mu.agents {
		if _, ok := api.Agree(hello.Protocol, other.protocol); !ok && uint32(other.session) != hello.Session {
			return 0, t.farApart(hello, fmt.Sprintf("another agent of the cluster speaks protocol %d, this agent %d", other.protocol, hello.Protocol))
		}
	}
	return protocol, nil
}

func (t *tenure) farApart(hello *api.Hello, message string) *api.OwnerItem {
	t.log.Warn("agent refused: its protocol differs by more than one", zap.String("address", firstAddress(hello)),
		zap.String("version", cut(hello.Version)), zap.String("reason", message))
	return refusedItem(api.Refused_OTHER_PROTOCOL, message)
}

// admit returns the session that a Hello resumes, or opens a new one. bucket is the id of the state's bucket with which the agent's was
// compared. Error: ResourceExhausted.
func (t *tenure) admit(ctx context.Context, hello *api.Hello) (session id.Session, bucket string, refusal *api.OwnerItem, err error) {
	if bucket, refusal = t.compareBucket(ctx, hello); refusal != nil {
		return 0, "", refusal, nil
	}
	if hello.Session != 0 {
		return id.Session(hello.Session), bucket, nil, nil // welcome finds out whether it is open
	}
	done, err := t.reserve()
	if err != nil {
		return 0, "", nil, err
	}
	defer done()
	session, refusal = t.openSession(ctx, hello)
	return session, bucket, refusal, nil
}

// openSession opens a session for a Hello.
func (t *tenure) openSession(ctx context.Context, hello *api.Hello) (id.Session, *api.OwnerItem) {
	if hello.Instance == "" || len(hello.Endpoints) == 0 || len(hello.Endpoints) > maxEndpoints {
		return 0, refusedItem(api.Refused_INVALID, fmt.Sprintf("a session needs an instance and 1 to %d endpoints", maxEndpoints))
	}
	if refusal := t.refuseTexts(hello); refusal != nil {
		return 0, refusal
	}
	open := &metadata.OpenSession{
		Instance: hello.Instance, Zone: hello.Zone, Version: hello.Version, Peer: hello.PeerAddress, Roles: rolesOf(hello),
	}
	for _, e := range hello.Endpoints {
		open.Endpoints = append(open.Endpoints, metadata.Endpoint{Listener: e.Listener, Host: e.Host, Port: e.Port})
	}
	result, err := t.propose(ctx, open)
	if err == nil {
		err = result.Err
	}
	if err != nil {
		return 0, refusedItem(api.Refused_NOT_OWNER, "open a session: "+err.Error())
	}
	return result.Value.(metadata.OpenSessionResult).Session, nil
}

// refuseTexts refuses a Hello with texts beyond their bound, or with one zone too many: the state remembers zones for a day.
func (t *tenure) refuseTexts(hello *api.Hello) *api.OwnerItem {
	texts := []string{hello.Instance, hello.Zone, hello.Version, hello.PeerAddress}
	for _, e := range hello.Endpoints {
		texts = append(texts, e.Listener, e.Host)
	}
	sum := 0
	for _, text := range texts {
		if sum += len(text); len(text) > maxHelloText {
			return refusedItem(api.Refused_INVALID, fmt.Sprintf("a text of %d bytes in Hello, the limit is %d", len(text), maxHelloText))
		}
	}
	if sum > maxHelloTexts {
		return refusedItem(api.Refused_INVALID, fmt.Sprintf("texts of %d bytes in Hello, the limit is %d: shorten the addresses of listeners", sum, maxHelloTexts))
	}
	zones := map[string]bool{}
	_, err := t.owner.Read(func(s *metadata.State) {
		for info := range s.Sessions() {
			zones[info.Zone] = true
		}
	})
	if err != nil {
		return refusedItem(api.Refused_NOT_OWNER, err.Error())
	}
	if len(zones) >= maxZones && !zones[hello.Zone] {
		return refusedItem(api.Refused_INVALID, fmt.Sprintf("the virtual cluster has had agents in %d zones within a day, the limit", maxZones))
	}
	return nil
}

// rolesOf returns the roles in a Hello, without roles that are unknown to this program.
func rolesOf(hello *api.Hello) (roles metadata.Roles) {
	for _, r := range hello.Roles {
		switch r {
		case api.Role_ROLE_PRODUCE:
			roles |= metadata.RoleProduce
		case api.Role_ROLE_FETCH:
			roles |= metadata.RoleFetch
		case api.Role_ROLE_JOBS:
			roles |= metadata.RoleJobs
		default:
		}
	}
	return roles
}

const (
	// maxEndpoints is the maximum number of listeners of an agent.
	maxEndpoints = 64
	// maxHelloText is the maximum length of each text of Hello, in bytes. The longest name of a host has 253.
	maxHelloText = 300
	// maxHelloTexts is the maximum length of all texts of Hello. The state has them for each session, and some minutes longer.
	maxHelloTexts = 8 << 10
	// maxZones is the maximum number of zones of one virtual cluster, those of sessions that ended within a day included.
	maxZones = 64
)

// welcome attaches the agent at one log index. It returns the Welcome and the full catalogue of that index, which the sender sends before
// the outbox. The catalogue is built from a frozen state while it is sent, so that commits continue even with many topics.
func (t *tenure) welcome(a *agent, protocol uint32) (welcome *api.OwnerItem, catalogue iter.Seq[*api.Catalogue], refusal *api.OwnerItem) {
	var message *api.Welcome
	moved := false // another agent's bucket was taken before the session opened
	frozen, err := t.owner.Freeze(func(s *metadata.State) {
		info, ok := s.Session(a.session)
		if !ok || info.Closed || info.Instance != a.instance {
			return
		}
		if moved = t.cluster.cfg.AgentsBucket && s.RecordsBucket() != a.bucket; moved {
			return
		}
		a.zone = info.Zone
		if !t.attach(a, s.Index()) {
			return
		}
		message = &api.Welcome{
			Session: uint32(a.session), NodeIds: info.NodeIDs, ClusterId: s.ClusterID(), Index: s.Index(),
			NextN: info.NextN, BundlePrefix: t.cluster.cfg.BundlePrefix(s.ClusterID()), NowMs: time.Now().UnixMilli(), SteadyMs: t.steady(),
			Protocol: protocol, VirtualCluster: t.cluster.cfg.Name, PeerSecret: t.cluster.peerSecret(), MaxNextMs: uint32(maxRest.Milliseconds()),
		}
	})
	if err != nil {
		return nil, nil, refusedItem(api.Refused_NOT_OWNER, err.Error())
	}
	if moved {
		return nil, nil, refusedItem(api.Refused_NOT_OWNER, "the virtual cluster has another bucket by now")
	}
	if message == nil {
		return nil, nil, refusedItem(api.Refused_SESSION_CLOSED, "the session is not open, or another agent's")
	}
	return &api.OwnerItem{Item: &api.OwnerItem_Welcome{Welcome: message}}, fullCatalogue(frozen, batchBytes), nil
}

// send writes the full catalogue, and then the items of the outbox until the stream ends.
func (a *agent) send(ctx context.Context, stream rpcStream, catalogue iter.Seq[*api.Catalogue]) {
	if err := a.sendCatalogue(stream, catalogue); err != nil {
		a.cancel(fmt.Errorf("send to the agent: %w", err))
		return
	}
	for {
		if err := a.flush(stream); err != nil {
			a.cancel(fmt.Errorf("send to the agent: %w", err))
			return
		}
		if a.finished() {
			a.cancel(errFinished)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-a.out.signal:
		}
	}
}

// sendCatalogue writes the full catalogue. It unlocks sending, which converse locked.
func (a *agent) sendCatalogue(stream rpcStream, catalogue iter.Seq[*api.Catalogue]) error {
	defer a.sending.Unlock()
	for part := range catalogue {
		if err := a.sendItems(stream, []*api.OwnerItem{catalogueItem(part)}); err != nil {
			return err
		}
	}
	return nil
}

// flush sends the items of the outbox until it is empty.
func (a *agent) flush(stream rpcStream) error {
	for {
		if sent, err := a.sendNext(stream); !sent || err != nil {
			return err
		}
	}
}

// finished reports whether all items are sent and no more come.
func (a *agent) finished() bool {
	a.sending.Lock() // sendAnswers may have taken the last one
	defer a.sending.Unlock()
	return a.out.ended()
}

// sendNext sends the next items of the outbox. sent reports whether there were any.
func (a *agent) sendNext(stream rpcStream) (sent bool, err error) {
	a.sending.Lock()
	defer a.sending.Unlock()
	items, done := a.out.take()
	if len(items) == 0 {
		return false, nil
	}
	defer done()
	return true, a.sendItems(stream, items)
}

// sendAnswers sends a small message from the held outbox. The receiver calls it for idle agents, so that the sender need not wake. An idle
// agent's flow-control window has room for a small message, so Send does not block the receiver. If the sender is sending, or the first items are
// large, sendAnswers leaves all items to the sender.
func (a *agent) sendAnswers(stream rpcStream) {
	if !a.sending.TryLock() {
		return
	}
	defer a.sending.Unlock()
	items, sent := a.out.takeSmall()
	if len(items) == 0 {
		return
	}
	defer sent()
	if err := a.sendItems(stream, items); err != nil {
		a.cancel(fmt.Errorf("send to the agent: %w", err))
	}
}

func (a *agent) sendItems(stream rpcStream, items []*api.OwnerItem) error {
	a.t.metrics.messages.Inc()
	a.t.metrics.items.Add(float64(len(items)))
	return stream.Send(&api.ToAgent{Items: items})
}

// end sends a last item and then ends the stream.
func (a *agent) end(last *api.OwnerItem) {
	a.out.push(last)
	a.out.finish()
	time.AfterFunc(lastWords, func() { a.cancel(errFinished) })
}

// receive handles what the agent sends, in order.
func (a *agent) receive(ctx context.Context, stream rpcStream, rest []*api.AgentItem) {
	a.handle(ctx, stream, rest)
	for {
		message, err := stream.Recv()
		if err != nil {
			a.cancel(fmt.Errorf("receive from the agent: %w", err))
			return
		}
		a.t.heard(a)
		a.handle(ctx, stream, message.Items)
	}
}

// waits notes that a message of the agent waits for memory. The agent is not silent: the wait is this replica's, and ends with the connection. The
// agent gets an empty item, so that it does not give up its stream.
func (a *agent) waits() {
	a.t.heard(a)
	a.out.push(new(api.OwnerItem))
}

// fewItems is the maximum number of items in a message whose immediate answers leave together. The first answer to a larger message would wait
// for all other items.
const fewItems = 8

// handle handles the items of one message. One stamp answers all probes of the message. The immediate answers to at most fewItems items leave in
// one message. handle itself sends it to an idle agent, and the sender to other agents.
func (a *agent) handle(ctx context.Context, stream rpcStream, items []*api.AgentItem) {
	var probe *api.Probe
	if len(items) <= fewItems {
		a.out.hold()
		defer func() {
			if probe != nil && restOf(probe) > toldRest {
				a.sendAnswers(stream)
			}
			a.out.release()
		}()
	}
	for _, item := range items {
		switch i := item.Item.(type) {
		case *api.AgentItem_Probe:
			probe = i.Probe
		case *api.AgentItem_Commit:
			a.commit(i.Commit)
		case *api.AgentItem_Abandon:
			a.abandon(i.Abandon)
		case *api.AgentItem_Lookup:
			a.lookup(i.Lookup)
		case *api.AgentItem_Unsubscribe:
			a.unsubscribe(i.Unsubscribe)
		case *api.AgentItem_Forward:
			a.forward(ctx, i.Forward)
		case *api.AgentItem_Drain:
			a.drain(ctx, i.Drain.Request)
		case *api.AgentItem_Goodbye:
			a.goodbye(ctx, i.Goodbye.Request)
		case *api.AgentItem_Load:
			a.load(i.Load)
		case *api.AgentItem_JobProgress:
			a.jobProgress(i.JobProgress)
		case *api.AgentItem_CompleteJob:
			a.completeJob(ctx, i.CompleteJob)
		case *api.AgentItem_AbortJob:
			a.abortJob(ctx, i.AbortJob)
		case *api.AgentItem_ErrandDone:
			a.errandDone(i.ErrandDone)
		}
	}
	if probe != nil {
		a.stamp(probe)
	}
}

// drain removes the agent from the membership.
func (a *agent) drain(ctx context.Context, request uint64) {
	a.t.mu.Lock()
	a.drains = true
	a.t.mu.Unlock()
	a.t.spawn(func() {
		result, err := a.t.propose(ctx, &metadata.DrainSession{Session: a.session})
		if err == nil {
			err = result.Err
		}
		a.out.push(doneItem(request, commandFault(err)))
	})
}

// goodbye closes the session for the agent, answers, and ends the stream.
func (a *agent) goodbye(ctx context.Context, request uint64) {
	a.t.mu.Lock()
	a.leaving = true // the agent gets Done instead of Refused
	a.t.mu.Unlock()
	a.t.spawn(func() {
		result, err := a.t.propose(context.WithoutCancel(ctx), &metadata.CloseSession{Session: a.session})
		if err == nil {
			err = result.Err
		}
		a.out.push(doneItem(request, commandFault(err)))
		if err == nil {
			a.t.log.Info("agent closed its session", zap.Uint32("session", uint32(a.session)))
			a.out.finish()
			time.AfterFunc(lastWords, func() { a.cancel(errFinished) })
		}
	})
}
