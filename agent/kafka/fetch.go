package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/fetch"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/id"
)

// Fetch answers Fetch (key 1), versions 4 to 18.
//
//	4   isolation level, last stable offset, aborted transactions (KIP-98)
//	5   log start offset in the response
//	6   KAFKA_STORAGE_ERROR may be answered
//	7   fetch sessions (KIP-227)
//	9   current leader epoch in the request (KIP-320); any agent serves any partition, but see Departure
//	11  rack, preferred read replica (KIP-392); none is preferred
//	12  flexible; last fetched epoch, diverging epoch (KIP-595); logs never diverge
//	13  topic ids (KIP-516); UNKNOWN_TOPIC_ID
//	14  tiered storage's error (KIP-405); never answered
//	15  replica state instead of replica id (KIP-903)
//	16  the current leader and its endpoint (KIP-951), while the agent drains
//	17  directory id of followers (KIP-853)
//	18  high watermark of followers (KIP-1166)
type Fetch struct{ cfg FetchConfig }

// FetchConfig has the parts of Fetch.
type FetchConfig struct {
	Catalogue *view.Catalogue
	Source    view.Prober
	Fetcher   *fetch.Fetcher
	Sessions  *fetch.Sessions
	// Departure redirects clients while the agent drains. Nil means never.
	Departure *Departure
}

// Bounds of one request.
const (
	// freshTimeout bounds the question to the owner whether an unknown topic exists.
	freshTimeout = 2 * time.Second
	// maxWait bounds the wait for records that a client asks for. Kafka has no bound; its clients wait 500 ms by default.
	maxWait = 5 * time.Minute
	// shortenedThrottle is the throttle time in an empty answer that was not waited for, so that the client does not come back
	// at once (KIP-219).
	shortenedThrottle = 100 * time.Millisecond
)

// NewFetch checks the configuration.
func NewFetch(cfg FetchConfig) (*Fetch, error) {
	if cfg.Catalogue == nil || cfg.Source == nil || cfg.Fetcher == nil || cfg.Sessions == nil {
		return nil, errors.New("fetch handler: catalogue, source, fetcher and sessions are needed")
	}
	return &Fetch{cfg: cfg}, nil
}

// Key implements API.
func (*Fetch) Key() int16 { return int16(kmsg.Fetch) }

// Start implements API. The decoded request is charged, before it is decoded if it is large, until the client has taken the answer. The frame is
// released then. Without room for the charge, the frame stays until the fetch has a turn, in which it is decoded and answered without a wait for
// records.
func (f *Fetch) Start(ctx context.Context, req *edge.Request) func() edge.Reply {
	var in *kmsg.FetchRequest
	var bytes int64
	if len(req.Body) < largeRequest {
		var err error
		if in, err = decodeFetch(req); err != nil {
			return Malformed(req, err)
		}
		bytes = requestBytes(in, len(req.Body))
	} else {
		elements := kafkaproto.CountElements(req.Key, req.Version, req.Body)
		bytes = int64(fetch.BaseBytes + len(req.Body) + elements*(partitionBytes+fetch.PartitionBytes))
	}
	charge := f.cfg.Fetcher.Charge()
	parked := charge.Park(bytes)
	answer := func(in *kmsg.FetchRequest) edge.Reply {
		return released(func() edge.Reply { return f.answer(ctx, req, in, &charge) }, charge.Release)
	}
	if parked {
		if in == nil {
			var err error
			if in, err = decodeFetch(req); err != nil {
				charge.Release()
				return Malformed(req, err)
			}
		}
		req.Release()
		return func() edge.Reply { return answer(in) }
	}
	return func() edge.Reply {
		if err := charge.Resize(ctx, bytes); err != nil {
			return disconnected(err)
		}
		in, err := decodeFetch(req)
		if err != nil {
			charge.Release()
			return Malformed(req, err)()
		}
		req.Release()
		return answer(in)
	}
}

func decodeFetch(req *edge.Request) (*kmsg.FetchRequest, error) {
	in := kmsg.NewPtrFetchRequest()
	if err := Decode(req, in); err != nil {
		return nil, err
	}
	if in.IsolationLevel < 0 || in.IsolationLevel > 1 {
		return nil, fmt.Errorf("isolation level %d", in.IsolationLevel)
	}
	return in, nil
}

// Memory of a decoded request: its structs, and its tagged fields, which are maps. Their contents and names are as long as in the
// frame.
const (
	topicBytes     = 128 // of a topic or a forgotten one
	partitionBytes = 112
	tagsBytes      = 512 // of a struct that has tagged fields
	tagBytes       = 64
)

// requestBytes returns the memory of a decoded request and of the fetch of its partitions.
func requestBytes(in *kmsg.FetchRequest, frame int) int64 {
	n := fetch.BaseBytes + frame + tagsOf(&in.UnknownTags)
	for i := range in.Topics {
		t := &in.Topics[i]
		n += topicBytes + tagsOf(&t.UnknownTags) + len(t.Partitions)*(partitionBytes+fetch.PartitionBytes)
		for j := range t.Partitions {
			n += tagsOf(&t.Partitions[j].UnknownTags)
		}
	}
	for i := range in.ForgottenTopics {
		t := &in.ForgottenTopics[i]
		n += topicBytes + tagsOf(&t.UnknownTags) + len(t.Partitions)*partitionBytes
	}
	return int64(n)
}

func tagsOf(tags *kmsg.Tags) int {
	if tags.Len() == 0 {
		return 0
	}
	return tagsBytes + tagBytes*tags.Len()
}

// disconnected is the reply to a request whose connection ended.
func disconnected(err error) edge.Reply { return edge.Reply{Close: true, Silent: true, Err: err} }

// answer answers a decoded request.
func (f *Fetch) answer(ctx context.Context, req *edge.Request, in *kmsg.FetchRequest, charge *fetch.Charge) edge.Reply {
	s, kafkaErr := f.begin(ctx, req, in)
	if kafkaErr != nil {
		return encodeFetch(&fetch.Answer{Version: in.Version, ErrorCode: kafkaErr.Code}, nil)
	}
	if s.incremental { // the partitions are the session's, not the request's
		in.Topics, in.ForgottenTopics = nil, nil
		if err := charge.Resize(ctx, int64(fetch.BaseBytes+len(s.tracked)*fetch.PartitionBytes)); err != nil {
			return disconnected(err)
		}
	}
	f.resolve(ctx, in.Version, s)
	if in.ReplicaID >= 0 || in.ReplicaState.ID >= 0 { // there are no followers, and no client may act as one
		for i := range s.partitions {
			s.partitions[i].Refused = kerr.TopicAuthorizationFailed
		}
	}
	elsewhere := f.redirect(ctx, req, in.Version, s)
	wait := min(time.Duration(max(in.MaxWaitMillis, 0))*time.Millisecond, maxWait)
	if !charge.Waits() {
		wait = 0
	}
	resp := f.cfg.Fetcher.Fetch(ctx, &fetch.Request{
		Arrived: req.Arrived, Reader: req.Client.ID, MaxWait: wait,
		MinBytes: int(in.MinBytes), MaxBytes: int(in.MaxBytes), ReadCommitted: in.IsolationLevel == 1,
		Partitions: s.partitions,
	})
	if resp.NewReader {
		context.AfterFunc(ctx, func() { f.cfg.Fetcher.Leave(req.Client.ID) })
	}
	a := s.finish(in, resp, elsewhere)
	if !charge.Waits() && resp.Bytes == 0 && in.MaxWaitMillis > 0 {
		a.ThrottleMs = int32(shortenedThrottle.Milliseconds())
	}
	return encodeFetch(a, resp)
}

// encodeFetch encodes the reply. The records are released once the reply is written.
func encodeFetch(a *fetch.Answer, resp *fetch.Response) edge.Reply {
	head, tail := a.Encode()
	reply := edge.Reply{Head: head, Tail: tail}
	if a.ErrorCode != 0 {
		reply.Errors = append(reply.Errors, a.ErrorCode)
	}
	for i := range a.Partitions {
		if code := a.Partitions[i].ErrorCode; code != 0 {
			reply.Errors = append(reply.Errors, code)
		}
	}
	if resp != nil {
		reply.Release = resp.Release
	}
	return reply
}

// fetching has the partitions of one request, within a session or without.
type fetching struct {
	session     *fetch.Session // nil if there is none
	incremental bool           // the answer has only news
	tracked     []*fetch.Tracked
	partitions  []fetch.Partition // of tracked, in its order
}

// begin finds or opens the session as FetchManager.newContext does.
func (f *Fetch) begin(ctx context.Context, req *edge.Request, in *kmsg.FetchRequest) (*fetching, *kerr.Error) {
	holder := fetch.Holder{Connection: req.Client.ID, Principal: req.Client.Principal}
	byID := in.Version >= 13
	asked := tracked(in, byID)
	if in.SessionEpoch == fetch.EpochFinal || in.SessionEpoch == fetch.EpochInitial {
		if in.SessionID != 0 {
			f.cfg.Sessions.Close(in.SessionID, holder)
		}
		s := &fetching{tracked: asked}
		if in.SessionEpoch == fetch.EpochInitial && len(asked) > 0 {
			var first bool
			if s.session, first = f.cfg.Sessions.Open(holder, byID, asked); first {
				context.AfterFunc(ctx, func() { f.cfg.Sessions.Leave(holder.Connection) })
			}
		}
		if s.session != nil {
			s.tracked = s.session.Partitions()
		}
		return s, nil
	}
	session, err := f.cfg.Sessions.Get(in.SessionID, in.SessionEpoch, holder, byID)
	if err != nil {
		return nil, err
	}
	if !f.cfg.Sessions.Update(session, asked, forgotten(in, byID)) {
		return nil, kerr.FetchSessionIDNotFound // the session outgrew the bounds; the client opens another one
	}
	if len(session.Partitions()) == 0 {
		f.cfg.Sessions.Close(session.ID, holder)
		return &fetching{}, nil
	}
	return &fetching{session: session, incremental: true, tracked: session.Partitions()}, nil
}

func tracked(in *kmsg.FetchRequest, byID bool) []*fetch.Tracked {
	var out []*fetch.Tracked
	for i := range in.Topics {
		t := &in.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			out = append(out, &fetch.Tracked{
				Key: topicKey(byID, t.TopicID, t.Topic, p.Partition), Offset: p.FetchOffset, MaxBytes: p.PartitionMaxBytes,
				Epoch: p.CurrentLeaderEpoch,
			})
		}
	}
	return out
}

func forgotten(in *kmsg.FetchRequest, byID bool) []fetch.TopicKey {
	var out []fetch.TopicKey
	for i := range in.ForgottenTopics {
		t := &in.ForgottenTopics[i]
		for _, p := range t.Partitions {
			out = append(out, topicKey(byID, t.TopicID, t.Topic, p))
		}
	}
	return out
}

func topicKey(byID bool, topic [16]byte, name string, partition int32) fetch.TopicKey {
	if byID {
		return fetch.TopicKey{ID: topic, Partition: partition}
	}
	return fetch.TopicKey{Name: name, Partition: partition}
}

// resolve finds the partitions' topics. It waits once for a fresh catalogue if a topic is unknown (I4).
func (f *Fetch) resolve(ctx context.Context, version int16, s *fetching) {
	s.partitions = make([]fetch.Partition, len(s.tracked))
	missing := s.lookup(f.cfg.Catalogue.Load(), version)
	if !missing {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, freshTimeout)
	defer cancel()
	snapshot, err := f.cfg.Catalogue.Fresh(ctx, f.cfg.Source)
	if err == nil {
		s.lookup(snapshot, version)
		return
	}
	for i := range s.partitions {
		if s.partitions[i].Refused != nil {
			s.partitions[i].Refused = kerr.NotLeaderForPartition // retriable: nothing is known
		}
	}
}

// lookup fills the partitions from a catalogue. Partitions unknown to the catalogue are refused.
func (s *fetching) lookup(snapshot *view.Snapshot, version int16) (missing bool) {
	var topic *view.Topic
	var last fetch.TopicKey
	found := false
	for i, t := range s.tracked {
		if i == 0 || t.Key.ID != last.ID || t.Key.Name != last.Name {
			topic, found = findTopic(snapshot, version, t.Key)
		}
		last = t.Key
		p := fetch.Partition{Offset: t.Offset, MaxBytes: int(t.MaxBytes)}
		switch {
		case !found && version >= 13:
			p.Refused = kerr.UnknownTopicID
		case !found, t.Key.Partition < 0, t.Key.Partition >= topic.Partitions:
			p.Refused = kerr.UnknownTopicOrPartition
		default:
			p.ID = id.TopicPartition{Topic: topic.ID, Partition: t.Key.Partition}
		}
		missing = missing || p.Refused != nil
		s.partitions[i] = p
	}
	return missing
}

func findTopic(snapshot *view.Snapshot, version int16, key fetch.TopicKey) (*view.Topic, bool) {
	if version >= 13 {
		return snapshot.TopicByID(key.ID)
	}
	return snapshot.TopicByName(key.Name)
}

// finish makes the answer: all partitions, or only news if the request is incremental.
func (s *fetching) finish(in *kmsg.FetchRequest, resp *fetch.Response, to elsewhere) *fetch.Answer {
	a := &fetch.Answer{Version: in.Version, ReadCommitted: in.IsolationLevel == 1, Endpoints: to.endpoints}
	if s.session != nil {
		a.SessionID = s.session.ID
	}
	for i, t := range s.tracked {
		r := &resp.Results[i]
		if s.session != nil && !t.Told(r) && s.incremental {
			continue
		}
		p := fetch.PartitionAnswer{TopicID: t.Key.ID, Topic: t.Key.Name, Partition: t.Key.Partition, Leader: to.leaders[i], Result: r}
		if r.Err != nil {
			p.ErrorCode = fetchCode(in.Version, r.Err)
		}
		a.Partitions = append(a.Partitions, p)
	}
	if s.session != nil && resp.Bytes > 0 {
		s.session.Rotate(func(i int) bool { return resp.Results[i].Size > 0 })
	}
	return a
}

// fetchCode returns the code of an error in a version.
func fetchCode(version int16, err *kerr.Error) int16 {
	if err == kerr.KafkaStorageError && version < 6 {
		return kerr.NotLeaderForPartition.Code
	}
	return err.Code
}
