package kafka

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/id"
)

// Bits of what an unrestricted principal may do to a topic and to the cluster, as a broker without an authorizer
// answers (AclEntry.supportedOperations: bit n is AclOperation n).
const (
	allTopicOperations   = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	allClusterOperations = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
)

// DefaultMetadataTimeout bounds how long a Metadata request waits for knowledge it lacks. It is well below the least
// time-out that common clients have for it (franz-go's, 10 s): a client that gives up closes its connection, and with
// it everything that is under way there.
const DefaultMetadataTimeout = 5 * time.Second

// listFreshTimeout bounds how long a list of all topics waits to be as new as its request. While the control plane is
// away, what is known is listed.
const listFreshTimeout = time.Second

// TopicCreator creates topics that a client asked about (auto.create.topics.enable), with the cluster's defaults. It
// gives one error per name, nil if the topic is there now, whoever created it.
type TopicCreator interface {
	CreateTopics(ctx context.Context, req *edge.Request, names []string) []error
}

// MetadataConfig is what the Metadata API is made of.
type MetadataConfig struct {
	Catalogue *view.Catalogue
	Views     *Views
	// Prober tells when the catalogue is as new as a request (I4).
	Prober view.Prober
	// Creator creates unknown topics; nil: never.
	Creator TopicCreator
	// Timeout bounds the wait for the control plane; default DefaultMetadataTimeout.
	Timeout    time.Duration
	Log        *zap.Logger
	Registerer prometheus.Registerer
	// Departure notes the clients that refresh their metadata while the agent drains. Nil means none.
	Departure *Departure
	// Answers bounds the memory of answers that name topics. Lists of all topics are shared. Nil means no bounds.
	Answers *Answers
}

// Metadata is key 3, versions 0-13.
//
//	0  an empty list asks for all topics; from 1 on null does, and an empty one for none
//	1  adds racks, the controller, internal topics
//	2  adds the cluster id; 3 the throttle time; 5 offline replicas; 7 leader epochs
//	4  says whether topics may be created
//	8  adds authorized operations (of the cluster up to 10)
//	9  is flexible
//	10 adds topic ids to the answer; 12 to the request
//	13 adds a top-level error
type Metadata struct {
	cfg     MetadataConfig
	unknown *unknownZones
}

// NewMetadata builds the Metadata API.
func NewMetadata(cfg MetadataConfig) *Metadata {
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultMetadataTimeout)
	cfg.Log = cmp.Or(cfg.Log, zap.NewNop())
	return &Metadata{cfg: cfg, unknown: newUnknownZones(cfg.Views.zones, cfg.Log, cfg.Registerer)}
}

// Key is the API's.
func (*Metadata) Key() int16 { return kafkaproto.KeyMetadata }

// Start implements API.
func (m *Metadata) Start(ctx context.Context, req *edge.Request) func() edge.Reply {
	in := kmsg.NewPtrMetadataRequest()
	if err := Decode(req, in); err != nil {
		return Malformed(req, err)
	}
	if req.Version < 4 {
		in.AllowAutoTopicCreation = true
	}
	return func() edge.Reply {
		defer m.cfg.Departure.refreshed(req.Client.ID)
		if !validTopics(req.Version, in) {
			return Answer(req, invalidTopics(in))
		}
		return m.answer(ctx, req, in)
	}
}

// asked is one topic of a request, by name or by id.
type asked struct {
	name string
	id   id.Topic
	byID bool
}

// found is what became of an asked topic: a topic, or the error to answer.
type found struct {
	topic *view.Topic
	err   error
}

func (m *Metadata) answer(ctx context.Context, req *edge.Request, in *kmsg.MetadataRequest) edge.Reply {
	until := time.Now().Add(m.cfg.Timeout) // no timer for those who need not wait
	s := m.ready(ctx, until)
	var topics []asked
	var results []found
	all := in.Topics == nil || req.Version == 0 && len(in.Topics) == 0
	if all {
		s = m.newest(ctx, until, s)
	} else {
		topics = dedupe(in)
		var missing int
		if results, missing = lookUp(s, topics); missing > 0 {
			ctx, cancel := context.WithDeadline(ctx, until)
			defer cancel()
			s, results = m.find(ctx, req, s, topics, results, in.AllowAutoTopicCreation)
		}
	}
	m.unknown.meet(s, req)
	zone := m.cfg.Views.of(s, req)
	if len(zone.brokers) == 0 {
		// librdkafka (from 2.10 on) drops the brokers that an answer does not name, and stands still without any.
		return closed()
	}
	if all {
		return edge.Reply{Head: m.cfg.Views.encodedTopics(in, s, zone)}
	}
	release, err := m.cfg.Answers.reserve(ctx, sizeOf(topics, results))
	if err != nil {
		return closed() // its client is gone
	}
	reply := Answer(req, metadataResponse(in, s, zone, topics, results))
	reply.Release = release
	return reply
}

// sizeOf returns about the bytes of an answer.
func sizeOf(topics []asked, results []found) (n int) {
	for i, r := range results {
		n += 64 + len(topics[i].name)
		if r.topic != nil {
			n += len(r.topic.Name) + 64*int(r.topic.Partitions)
		}
	}
	return n
}

// ready gives the newest snapshot once there is one, or an empty one when the time is up.
func (m *Metadata) ready(ctx context.Context, until time.Time) *view.Snapshot {
	select {
	case <-m.cfg.Catalogue.Ready():
		return m.cfg.Catalogue.Load()
	default:
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	select {
	case <-m.cfg.Catalogue.Ready():
	case <-ctx.Done():
	}
	return m.cfg.Catalogue.Load()
}

// newest gives a snapshot as new as the request, so that the list lacks no topic that its client was told of (I4), or
// the one there is.
func (m *Metadata) newest(ctx context.Context, until time.Time, s *view.Snapshot) *view.Snapshot {
	ctx, cancel := context.WithTimeout(ctx, min(listFreshTimeout, time.Until(until)))
	defer cancel()
	fresh, err := m.cfg.Catalogue.Fresh(ctx, m.cfg.Prober)
	if err != nil {
		m.cfg.Log.Debug("topics listed as last known", zap.Error(err))
		return s
	}
	return fresh
}

// find looks topics up that a snapshot lacks, with knowledge as new as the request (I4), and creates what is to be created.
// It gives the snapshot that the results are of.
func (m *Metadata) find(
	ctx context.Context, req *edge.Request, s *view.Snapshot, topics []asked, results []found, create bool,
) (*view.Snapshot, []found) {
	fresh, err := m.cfg.Catalogue.Fresh(ctx, m.cfg.Prober)
	if err != nil {
		m.cfg.Log.Debug("metadata of unknown topics not answered", zap.Error(err))
		for i := range results {
			if results[i].err != nil && validName(topics[i]) {
				results[i].err = kerr.LeaderNotAvailable // not known to be absent
			}
		}
		return s, results
	}
	results, missing := lookUp(fresh, topics)
	if missing == 0 || !create || m.cfg.Creator == nil {
		return fresh, results
	}
	return m.create(ctx, req, fresh, topics, results)
}

// create makes the topics that are missing by name, and looks again.
func (m *Metadata) create(ctx context.Context, req *edge.Request, s *view.Snapshot, topics []asked, results []found) (
	*view.Snapshot, []found,
) {
	var names []string
	var at []int
	for i, r := range results {
		if r.topic == nil && !topics[i].byID && validName(topics[i]) && internaltopic.ByName(topics[i].name) == nil {
			names, at = append(names, topics[i].name), append(at, i)
		}
	}
	if len(names) == 0 {
		return s, results
	}
	errs := m.cfg.Creator.CreateTopics(ctx, req, names)
	fresh, err := m.cfg.Catalogue.Fresh(ctx, m.cfg.Prober)
	if err != nil {
		fresh = s
	}
	results, _ = lookUp(fresh, topics)
	for j, i := range at {
		if results[i].topic == nil {
			results[i].err = createError(errs[j])
		}
	}
	return fresh, results
}

// createError is what a topic answers that is not there after it was to be created: a refusal as such, anything else
// for the client to ask again.
func createError(err error) error {
	var refused *kerr.Error
	if errors.As(err, &refused) && !refused.Retriable {
		return refused
	}
	return kerr.LeaderNotAvailable
}

// lookUp finds the topics in a snapshot and counts those that are missing and could exist.
func lookUp(s *view.Snapshot, topics []asked) (results []found, missing int) {
	results = make([]found, len(topics))
	for i, t := range topics {
		r := &results[i]
		if t.byID {
			r.topic, _ = s.TopicByID(t.id)
			r.err = kerr.UnknownTopicID
		} else {
			r.topic, _ = s.TopicByName(t.name)
			r.err = kerr.UnknownTopicOrPartition
		}
		switch {
		case r.topic != nil:
			r.err = nil
		case !validName(t):
			r.err = kerr.InvalidTopicException
		default:
			missing++
		}
	}
	return results, missing
}

// validTopics: a name is there in every version before 12, and ids are not (KafkaApis.handleTopicMetadataRequest).
func validTopics(version int16, in *kmsg.MetadataRequest) bool {
	for _, t := range in.Topics {
		if version < 12 && (t.Topic == nil || t.TopicID != [16]byte{}) {
			return false
		}
		if t.Topic == nil && t.TopicID == [16]byte{} {
			return false
		}
	}
	return true
}

// invalidTopics answers every topic with INVALID_REQUEST.
func invalidTopics(in *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	out := kmsg.NewPtrMetadataResponse()
	for _, t := range in.Topics {
		a := kmsg.NewMetadataResponseTopic()
		a.ErrorCode, a.Topic, a.TopicID = kerr.InvalidRequest.Code, t.Topic, t.TopicID
		if a.Topic == nil {
			a.Topic = kmsg.StringPtr("")
		}
		out.Topics = append(out.Topics, a)
	}
	out.ErrorCode = kerr.InvalidRequest.Code
	return out
}

// dedupe gives each asked topic once, in order. If one is asked by id, all are (as Kafka does).
func dedupe(in *kmsg.MetadataRequest) []asked {
	byID := false
	for _, t := range in.Topics {
		byID = byID || t.TopicID != [16]byte{}
	}
	seen := make(map[asked]bool, len(in.Topics))
	var topics []asked
	for _, t := range in.Topics {
		a := asked{byID: byID}
		if byID {
			a.id = t.TopicID
		} else {
			a.name = *t.Topic
		}
		if !seen[a] && (!byID || a.id != id.Topic{}) {
			seen[a] = true
			topics = append(topics, a)
		}
	}
	return topics
}

// refusedTopic answers an asked topic with an error.
func refusedTopic(t asked, err error) kmsg.MetadataResponseTopic {
	a := kmsg.NewMetadataResponseTopic()
	a.ErrorCode = ErrorCode(err)
	a.TopicID = t.id
	if !t.byID {
		a.Topic = &t.name
	}
	return a
}

// maxTopicName is Kafka's limit of a topic name's length.
const maxTopicName = 249

// validName tells whether a topic could have the name (Kafka's Topic.validate). Any id is valid.
func validName(t asked) bool {
	if t.byID {
		return true
	}
	if t.name == "" || t.name == "." || t.name == ".." || len(t.name) > maxTopicName {
		return false
	}
	for _, c := range []byte(t.name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
