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
	"github.com/freshet-io/freshet/agent/recode"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/commit"
)

const (
	// maxProduceTimeout bounds the wait for a produce's answer, whatever the request says.
	maxProduceTimeout = 60 * time.Second
	// produceFreshTimeout bounds the wait for the control plane when a topic, partition or producer is not known.
	produceFreshTimeout = 2 * time.Second
)

// produceWait returns the time that a request waits for its answer, from its arrival.
func produceWait(in *kmsg.ProduceRequest) time.Duration {
	if in.TimeoutMillis <= 0 {
		return maxProduceTimeout
	}
	return min(time.Duration(in.TimeoutMillis)*time.Millisecond, maxProduceTimeout)
}

// BatchWriter takes record batches to the object store; writer.Writer implements it.
type BatchWriter interface {
	Add(ctx context.Context, batches []writer.Batch) *writer.Produce
}

// ProduceConfig is what the Produce API is made of.
type ProduceConfig struct {
	Catalogue *view.Catalogue
	Views     *Views
	// Prober tells when the catalogue is as new as a request (I4).
	Prober view.Prober
	// Forwarder tells whose a producer id is.
	Forwarder Forwarder
	Writer    BatchWriter
	// Recoder opens batches of compacted topics and of topics with a compression.type; nil: one with defaults.
	Recoder *recode.Recoder
	// Now is the time in ms since the epoch, corrected to the owner's clock; nil: this machine's.
	Now        func() int64
	Log        *zap.Logger
	Registerer prometheus.Registerer // nil: metrics are not registered
}

// Produce answers API key 0, versions 3-13. Lower ones are advertised and refused (KAFKA-18659).
//
//	3  adds the transactional id; records are one batch of format 2 per partition
//	5  adds the log start to the answer; 7 allows zstd
//	8  adds messages, and the records that were refused (KIP-467)
//	9  is flexible
//	10 adds the current leader to the answer where the agent is not the one to ask (KIP-951)
//	12 implies transaction version 2 (KIP-890)
//	13 names topics by id
//
// acks 1 and -1 are the same: nothing is answered before it is durable (I1). acks 0 takes the same path without an
// answer; its errors close the connection. timeout.ms bounds the wait for write buffers, PUT and commit together; at
// its end the outcome is unknown to the client, as in Kafka, and the batches go on their way.
type Produce struct {
	cfg       ProduceConfig
	topics    topicRules
	producers transactionalIDs
	windows   *windows
	strays    strays
}

// NewProduce builds the Produce API.
func NewProduce(cfg ProduceConfig) *Produce {
	if cfg.Now == nil {
		cfg.Now = func() int64 { return time.Now().UnixMilli() }
	}
	if cfg.Recoder == nil {
		cfg.Recoder = recode.New(recode.Config{})
	}
	cfg.Log = cmp.Or(cfg.Log, zap.NewNop())
	return &Produce{
		cfg: cfg, producers: transactionalIDs{to: cfg.Forwarder}, windows: newWindows(cfg.Log, cfg.Registerer),
		strays: strays{views: cfg.Views, seen: newRedirects()},
	}
}

// Key is the API's.
func (*Produce) Key() int16 { return kafkaproto.KeyProduce }

// Start implements API. It validates the batches and hands them to the writer, which copies them: the frame's memory
// is free when it returns. It blocks while write buffers are used up, and, for a topic or a transactional producer that is
// not known, for one question to the control plane.
func (p *Produce) Start(ctx context.Context, req *edge.Request) func() edge.Reply {
	in := kmsg.NewPtrProduceRequest()
	if err := Decode(req, in); err != nil {
		return Malformed(req, err)
	}
	ctx, cancel := context.WithDeadline(ctx, req.Arrived.Add(produceWait(in)))
	r := &produceRequest{api: p, req: req, in: in, now: p.cfg.Now()}
	unstamp := r.askStamp(ctx)
	r.prepare(ctx)
	r.pace()
	r.hand(ctx)
	r.forget()
	return func() edge.Reply {
		defer cancel()
		defer unstamp()
		reply := r.reply(ctx)
		r.req.Client.Pace.InFlight.Add(-1)
		r.req.Client.Pace.Answered.Store(time.Now().UnixNano())
		return reply
	}
}

// pace counts the request if it waited for the client's window.
func (r *produceRequest) pace() {
	bytes, batches, multiple := 0, 0, false
	for i := range r.parts {
		if b := r.parts[i].sent; b != nil {
			bytes, batches = bytes+len(b), batches+1
			multiple = multiple || b.RecordCount() > 1
		}
	}
	if held(&r.req.Client.Pace, r.req.Arrived, multiple) && batches > 0 {
		r.api.windows.add(r.req.ClientID, bytes, batches, r.req.Arrived)
	}
	r.req.Client.Pace.InFlight.Add(1)
}

// produceRequest is one request on its way.
type produceRequest struct {
	api     *Produce
	req     *edge.Request
	in      *kmsg.ProduceRequest
	now     int64 // ms
	parts   []producePart
	batches []writer.Batch // that are not handed over yet
	handed  []*writer.Produce
	added   int32       // batches, handed over or not
	stamp   *view.Stamp // of requests of the first transaction protocol
	// recordErrors counts the offending records that the answer lists.
	recordErrors int
}

// producePart is one partition's batch, and what became of it before it reached the writer.
type producePart struct {
	topic      *view.Topic
	rules      *topicconfig.Values
	partition  int32
	sent       kafkaproto.RecordBatch // valid; nil if err, and once it is handed over
	batch      int32                  // index into the results; -1 if err
	err        error
	appendTime int64 // ms, -1 unless stamped
	// transactional: the batch is of a transaction.
	transactional bool
}

// prepare checks every partition's batch.
func (r *produceRequest) prepare(ctx context.Context) {
	n := 0
	for i := range r.in.Topics {
		n += len(r.in.Topics[i].Partitions)
	}
	r.parts = make([]producePart, 0, n)
	if !validAcks(r.in.Acks) {
		r.refuseAll(n, kerr.InvalidRequiredAcks)
		return
	}
	if err := r.refuseTransaction(); err != nil {
		r.refuseAll(n, err)
		return
	}
	find := r.finder(ctx)
	var strayed func(*view.Topic, int32) bool
	if r.in.Acks != 0 { // without an answer, a refused batch is lost
		strayed = r.api.strays.strayed(r.api.cfg.Catalogue.Load(), r.req)
	}
	for i := range r.in.Topics {
		t := &r.in.Topics[i]
		for k := range t.Partitions {
			r.check(find, strayed, t, &t.Partitions[k])
		}
	}
	r.checkTransactional(ctx)
}

func validAcks(acks int16) bool { return acks >= -1 && acks <= 1 }

func (r *produceRequest) refuseAll(n int, err error) {
	for range n {
		r.refuse(nil, err)
	}
}

// refuse ends a batch that was valid so far.
func (p *producePart) refuse(err error) { p.err, p.sent, p.batch = err, nil, -1 }

func (r *produceRequest) refuse(t *view.Topic, err error) {
	r.parts = append(r.parts, producePart{topic: t, batch: -1, err: err, appendTime: -1})
}

// check validates one partition's batch.
func (r *produceRequest) check(find finder, strayed func(*view.Topic, int32) bool, t *kmsg.ProduceRequestTopic, in *kmsg.ProduceRequestTopicPartition) {
	topic, rules, err := find(t, in.Partition)
	if err != nil {
		r.refuse(topic, err)
		return
	}
	if strayed != nil && strayed(topic, in.Partition) {
		r.refuse(topic, kerr.NotLeaderForPartition)
		return
	}
	b, err := r.validate(rules, in)
	if err != nil {
		r.refuse(topic, err)
		return
	}
	r.parts = append(r.parts, producePart{
		topic: topic, rules: rules, partition: in.Partition, sent: b, batch: -1, appendTime: -1, transactional: b.Transactional(),
	})
}

// reply waits for the batches' results, at most until ctx ends, and answers.
func (r *produceRequest) reply(ctx context.Context) edge.Reply {
	results := r.results(ctx)
	if r.in.Acks == 0 {
		return r.silent(results)
	}
	return Answer(r.req, r.answer(results))
}

// silent is what follows a request with acks 0: nothing, unless something failed (KafkaApis.sendNoOpResponse).
func (r *produceRequest) silent(results []writer.Result) edge.Reply {
	for i := range r.parts {
		if err := r.parts[i].outcome(results); err != nil {
			return edge.Reply{Silent: true, Close: true, Err: err, Errors: []int16{ErrorCode(err)}}
		}
	}
	return edge.Reply{Silent: true}
}

// outcome is the error that the partition's batch ended with, nil if it is committed.
func (p *producePart) outcome(results []writer.Result) error {
	if p.batch < 0 {
		return p.err
	}
	return resultError(&results[p.batch])
}

// resultError translates what the writer says of a batch.
func resultError(r *writer.Result) error {
	if r.Err != nil {
		for _, c := range writerCodes {
			if errors.Is(r.Err, c.err) {
				return c.code
			}
		}
		return kerr.UnknownServerError
	}
	switch r.Outcome {
	case commit.Accepted, commit.Duplicate:
		return nil
	case commit.Fenced:
		return kerr.InvalidProducerEpoch
	case commit.OutOfOrder:
		return kerr.OutOfOrderSequenceNumber
	case commit.NoPartition:
		return kerr.UnknownTopicOrPartition
	case commit.InvalidTxn:
		return kerr.InvalidTxnState
	case commit.Gap:
		return kerr.NotLeaderForPartition
	case commit.TooManyProducers:
		return kerr.NotEnoughReplicas
	default:
		return kerr.UnknownServerError
	}
}

// writerCodes are the writer's errors as clients see them. Clients retry after all of them, except errors of the batch itself.
var writerCodes = []struct {
	err  error
	code *kerr.Error
}{
	{writer.ErrSessionClosed, kerr.NotLeaderForPartition},
	{writer.ErrDraining, kerr.NotLeaderForPartition},
	{writer.ErrGap, kerr.NotLeaderForPartition},
	{writer.ErrNoStamp, kerr.NotEnoughReplicas},
	{writer.ErrStore, kerr.KafkaStorageError},
	{writer.ErrNotTaken, kerr.RequestTimedOut},
	{writer.ErrUnknownOutcome, kerr.RequestTimedOut},
	{writer.ErrSetAside, kerr.NotLeaderForPartition},
	{writer.ErrTooManyProducers, kerr.NotEnoughReplicas},
	{writer.ErrMalformed, kerr.InvalidRecord},
	{writer.ErrRefused, kerr.UnknownServerError},
}
