package kafka

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/kafkaproto"
)

// forwardTimeout bounds how long a forwarded request waits for an owner: below the 30 s that stock clients give a
// request, so that they get an answer and not a silent connection.
const forwardTimeout = 20 * time.Second

// lastWords are the requests that clients send and then close the connection without waiting: consumers commit, leave
// and go. They are done all the same, as by Kafka, and this bounds how long an owner is still waited for with them: as
// long as it takes, as a rule, until there is another one. A commit has less than that: after an owner change it could
// undo a newer one that the consumer's next life made by way of another agent.
var lastWords = map[int16]time.Duration{
	int16(kmsg.LeaveGroup):             6 * time.Second,
	int16(kmsg.ConsumerGroupHeartbeat): 6 * time.Second,
	int16(kmsg.OffsetCommit):           time.Second,
}

// Forwarder hands requests to the owner of the virtual cluster and gives the response's body, after its header. It
// waits for an owner while there is none, as long as ctx allows. client.ErrInvalid says that the owner refused the
// request as malformed; any other error means that there is no answer. *client.Session is one.
type Forwarder interface {
	Forward(ctx context.Context, f client.Forward) ([]byte, error)
}

// forwarded answers one API by asking the control plane. If that cannot be reached in time, the answer is the API's
// own retriable error.
type forwarded struct {
	key       int16
	to        Forwarder
	prober    view.Prober
	zones     *Zones
	catalogue *view.Catalogue
	views     *Views      // nil: no listener is shared, and no client is abroad
	left      func() bool // nil: never
	answers   *Answers
	log       *zap.Logger

	redirected *recent // clients abroad
	drained    *recent // connections whose commit was refused while the agent drains
}

func newForwarded(key int16, cfg Config) *forwarded {
	return &forwarded{
		key: key, to: cfg.Forwarder, prober: cfg.Prober, zones: cfg.Zones, catalogue: cfg.Catalogue, views: cfg.Views,
		left: cfg.Left, answers: cfg.Answers, log: cfg.Log, redirected: newRedirects(), drained: newRedirects(),
	}
}

func (f *forwarded) Key() int16 { return f.key }

func (f *forwarded) Start(ctx context.Context, req *edge.Request) func() edge.Reply {
	size, err := kafkaproto.CheckBody(req.Key, req.Version, req.Body)
	if err != nil {
		return Malformed(req, err)
	}
	req.Trim(size)
	out := f.redirectDraining(req)
	if out == nil {
		out = f.redirectAbroad(req)
	}
	if out != nil {
		return Ready(Answer(req, out))
	}
	forward := f.stamped(ctx, req)
	return func() edge.Reply { return f.ask(ctx, req, forward) }
}

func (f *forwarded) ask(ctx context.Context, req *edge.Request, forward forwardFunc) edge.Reply {
	waits := waitsForOthers(req.Key)
	if waits {
		// For minutes, its frame would take memory from the requests for which it waits. It counts in the session's bound of such requests
		// instead.
		body := bytes.Clone(req.Body)
		req.Release()
		req.Body = body
	}
	ctx, cancel := f.bound(ctx, req)
	defer cancel()
	out, shared := forwardOf(req, f.zones), f.sharing(req)
	out.Waits = waits
	if shared != nil {
		shared.request(&out)
	}
	body, release, err := f.within(ctx, forward, out)
	kept := false
	defer func() { // also after a panic
		if release != nil && !kept {
			release()
		}
	}()
	if err == nil && shared != nil {
		body, err = shared.answer(body)
	}
	if err == nil {
		kept = true
		return edge.Reply{Head: body, Release: release}
	}
	if !errors.Is(err, context.Canceled) {
		f.log.Debug("forwarded request not answered", zap.Int16("api_key", req.Key), zap.Error(err))
	}
	var refusal kmsg.Response
	if !errors.Is(err, client.ErrInvalid) {
		refusal = unavailable(req, err)
	}
	if refusal == nil {
		return edge.Reply{Close: true, Silent: true, Err: err}
	}
	return Answer(req, refusal)
}

// within forwards a request within the bounds of answers. release, if it is not nil, is to be called when the client has taken the answer.
func (f *forwarded) within(ctx context.Context, forward forwardFunc, out client.Forward) (body []byte, release func(), err error) {
	if !outgrow[kmsg.Key(f.key)] || f.answers == nil {
		body, err = forward(ctx, out)
		return body, nil, err
	}
	for _, room := range f.answers.rooms() {
		if room > 0 {
			release, err = f.answers.reserve(ctx, room)
		} else {
			release, err = f.answers.place(ctx)
		}
		if err != nil {
			return nil, nil, err
		}
		out.Room = room
		body, err = f.guarded(ctx, forward, out, release)
		if !errors.Is(err, client.ErrLarge) {
			return body, release, err
		}
		release()
	}
	return nil, nil, err
}

// guarded forwards a request. A panic calls release.
func (f *forwarded) guarded(ctx context.Context, forward forwardFunc, out client.Forward, release func()) (body []byte, err error) {
	returned := false
	defer func() {
		if !returned {
			release()
		}
	}()
	body, err = forward(ctx, out)
	returned = true
	return body, err
}

// bound gives the context that a request is forwarded under: its connection's, but for lastWords.
func (f *forwarded) bound(ctx context.Context, req *edge.Request) (context.Context, context.CancelFunc) {
	timeout := f.timeoutOf(req)
	after, outlives := lastWords[req.Key]
	if !outlives || req.Key == int16(kmsg.ConsumerGroupHeartbeat) && !leaves(req) {
		return context.WithTimeout(ctx, timeout)
	}
	ctx, cancel := req.Outlive(ctx, after)
	ctx, expire := context.WithTimeout(ctx, timeout)
	return ctx, func() {
		expire()
		cancel()
	}
}

// leaves tells whether a heartbeat of the consumer protocol is its member's last. Any other that comes after newer ones, by way
// of another agent, would undo what these said.
func leaves(req *edge.Request) bool {
	in := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	return Decode(req, in) == nil && in.MemberEpoch < 0
}

// forwardOf is a request as the control plane gets it. The body is valid during the call.
func forwardOf(req *edge.Request, zones *Zones) client.Forward {
	zone, named := zones.Of(req)
	return client.Forward{
		Key: req.Key, Version: req.Version, Body: req.Body,
		Principal: req.Client.Principal, ClientID: req.ClientID, Host: req.Client.Host,
		Listener: req.Client.Listener, Node: req.Client.PortIndex, Zone: zone, Connection: req.Client.ID,
		ZoneKnown: named, StandIns: named && takesStandIns(req.Client.Software()),
		Once: asksOnce(req),
	}
}
