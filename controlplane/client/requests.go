package client

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/wait"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// Commit submits a bundle's batches (package commit's encoding) and waits until they are in the log. The bytes are
// copied. The same submission always gets the same result. After until the owner brings it into its log no more, however
// long it was on its way and whoever stood still meanwhile; the zero time: whenever. Errors: ErrSessionClosed if its session was closed and
// nothing took effect, ErrUnavailable (outcome unknown: ask again with the same bytes), ErrLate, ErrInvalid.
func (s *Session) Commit(ctx context.Context, encoded []byte, until time.Time) (*commit.Result, error) {
	if err := s.checkCommit(encoded); err != nil {
		return nil, err
	}
	return s.settle(ctx, &call{
		item:   &api.AgentItem{Item: &api.AgentItem_Commit{Commit: &api.Commit{Encoded: bytes.Clone(encoded)}}},
		weight: int64(len(encoded)), until: until,
	})
}

// Abandon settles a submission of the open session as one that will not come, and gives its result: Abandoned, or
// what it had already. Errors as of Commit; ErrSessionClosed too if another session is open by now.
func (s *Session) Abandon(ctx context.Context, sub id.Submission) (*commit.Result, error) {
	return s.settle(ctx, &call{item: &api.AgentItem{Item: &api.AgentItem_Abandon{
		Abandon: &api.Abandon{N: sub.N, Session: uint32(sub.Session)},
	}}})
}

func (s *Session) settle(ctx context.Context, c *call) (*commit.Result, error) {
	answer, err := s.submit(ctx, c)
	if err != nil {
		return nil, err
	}
	result, err := commit.ParseResult(answer.GetCommit().GetResult())
	if err != nil {
		return nil, fmt.Errorf("read the result of a commit: %w", err)
	}
	if result.Status == commit.SessionClosed {
		return nil, ErrSessionClosed
	}
	return result, nil
}

// Lookup asks about partitions as of one log index. Answers are in the order asked. The handler has been given every
// notice before the answer; see LookupHandler for what comes after it.
func (s *Session) Lookup(ctx context.Context, partitions []*api.PartitionLookup) (*api.LookupAnswer, error) {
	c := &call{
		item:   &api.AgentItem{Item: &api.AgentItem_Lookup{Lookup: &api.Lookup{Partitions: slices.Clone(partitions)}}},
		weight: int64(len(partitions)) * 48,
	}
	if h, ok := s.cfg.Handler.(LookupHandler); ok {
		c.seen = func(item *api.OwnerItem) { h.OnLookup(partitions, item.GetLookup()) }
	}
	answer, err := s.submit(ctx, c)
	if err != nil {
		return nil, err
	}
	return answer.GetLookup(), nil
}

// Unsubscribe ends the notices of partitions. Some may still be on their way.
func (s *Session) Unsubscribe(partitions []id.TopicPartition) {
	refs := make([]*api.PartitionRef, len(partitions))
	for i, p := range partitions {
		refs[i] = &api.PartitionRef{Topic: bytes.Clone(p.Topic[:]), Partition: p.Partition}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stream != nil { // a new stream begins without subscriptions
		s.mu.stream.out.push(&api.AgentItem{Item: &api.AgentItem_Unsubscribe{Unsubscribe: &api.Unsubscribe{Partitions: refs}}})
	}
}

// Forward is one Kafka request that is the control plane's to answer.
type Forward struct {
	Key, Version int16
	Body         []byte // after the request's header, at most 60 MiB; copied
	Principal    string
	ClientID     string
	Host         string // the client's address
	Listener     string // name of the listener it came by
	Node         int    // index of that listener's port in Config.Endpoints, which selects the node id
	Zone         string // the client's zone
	ZoneKnown    bool   // whether every agent knows the client's zone
	StandIns     bool   // whether the client's software takes nodes that stand for zones without agents
	Connection   uint64 // unique in this process; requests of one connection keep their order
	// AsOf is a log index learned by a stamp that was asked for after the request arrived; 0: not given.
	AsOf uint64
	// Once: the request is not handed in again where the stream ended before its answer came, since the owner may have
	// acted on it and would answer differently now. ErrUnavailable then tells of it at once.
	Once bool
	// Room is the number of bytes that the caller has room for in the answer's body; 0 for 32 MiB.
	Room int
	// Waits: the answer waits for other clients. The request then counts in a bound of its own, and Body is not copied: do not change it.
	Waits bool
}

// Forward hands a Kafka request to the owner and returns the response's body, after its header. It waits for an owner
// while there is none, as long as ctx allows. Errors: ErrUnavailable, ErrInvalid (a body that is too large, too), ErrLarge, ErrThrottled.
//
// Forward may answer a heartbeat of a group member from a cache, without the owner (see repeats). If the cached answer has expired and the agent is
// idle, Forward waits for the next multiple of idleSlack before it asks the owner.
func (s *Session) Forward(ctx context.Context, f Forward) ([]byte, error) {
	key := repeatKey(&f)
	if key == "" {
		answer, err := s.forward(ctx, &f)
		return answer.GetBody(), err
	}
	body, expired, recalls := s.repeats.find(key, time.Now())
	if body != nil {
		return body, nil
	}
	if expired && s.idle() {
		if err := wait.For(ctx, wait.Align(0, idleSlack)); err != nil {
			return nil, unavailable(ctx)
		}
	}
	asked := time.Now()
	answer, err := s.forward(ctx, &f)
	if repeat := time.Duration(answer.GetRepeatMs()) * time.Millisecond; repeat > 0 {
		s.repeats.keep(key, recalls, answer.Body, asked.Add(repeat))
	}
	return answer.GetBody(), err
}

// idle reports whether the owner knows that this agent is idle. It is false without a stream.
func (s *Session) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.stream != nil && s.mu.stream.idle()
}

// forward hands a request to the owner. The answer is nil after an error.
func (s *Session) forward(ctx context.Context, f *Forward) (*api.ForwardAnswer, error) {
	if len(f.Body) > maxForwardBytes {
		return nil, fmt.Errorf("%w: a request of %d bytes, at most %d", ErrInvalid, len(f.Body), maxForwardBytes)
	}
	node := int32(-1)
	if ids := s.NodeIDs(); f.Node >= 0 && f.Node < len(ids) {
		node = ids[f.Node]
	}
	body := f.Body
	if !f.Waits {
		body = bytes.Clone(body)
	}
	answer, err := s.submit(ctx, &call{weight: int64(len(body)), once: f.Once, waits: f.Waits, item: &api.AgentItem{Item: &api.AgentItem_Forward{
		Forward: &api.Forward{
			ApiKey: int32(f.Key), ApiVersion: int32(f.Version), Body: body, Principal: f.Principal,
			ClientId: f.ClientID, Host: f.Host, Node: node, Zone: f.Zone, Connection: f.Connection, Listener: f.Listener,
			AsOf: f.AsOf, ZoneKnown: &f.ZoneKnown, StandIns: f.StandIns, AutoCreateTopics: &s.cfg.AutoCreateTopics,
			MaxAnswerBytes: uint32(f.Room), Repeats: true,
		},
	}}})
	if err != nil {
		return nil, err
	}
	return answer.GetForward(), nil
}

// Drain takes the agent out of the membership that clients see, now and in later sessions of this Session. It
// returns when the owner has done so; commits go on.
func (s *Session) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.mu.draining = true
	s.mu.Unlock()
	_, err := s.submit(ctx, drainCall())
	return err
}

func drainCall() *call {
	return &call{item: &api.AgentItem{Item: &api.AgentItem_Drain{Drain: &api.Drain{}}}}
}

// Goodbye closes the session and ends Run. Everything must be settled before.
func (s *Session) Goodbye(ctx context.Context) error {
	c := &call{item: &api.AgentItem{Item: &api.AgentItem_Goodbye{Goodbye: &api.Goodbye{}}}}
	s.mu.Lock()
	s.mu.leaving = true
	opened := s.mu.welcome != nil
	s.mu.Unlock()
	if !opened {
		return nil
	}
	_, err := s.submit(ctx, c)
	return err
}
