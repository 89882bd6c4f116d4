package kafka

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/kafkaproto"
)

const (
	// askedAnswer is the room that an answer of the control plane has at first, in bytes. A larger one is asked for again with more.
	askedAnswer = 256 << 10
	// tinyAnswer is the largest answer that is not counted, in bytes. A socket's buffer takes it.
	tinyAnswer = 64 << 10
	// sharedPart is the part of the memory limit that answers without a place share.
	sharedPart = 50
	// memoryOfPlace is the memory limit, in bytes, for each place. A place takes an answer of any size (session.MaxAnswerBytes).
	memoryOfPlace = 512 << 20
	maxPlaces     = 4
	reclaimEvery  = 250 * time.Millisecond
)

// Answers bounds the memory of answers without records, from before they exist until their clients have taken them. While an answer waits for
// memory, clients that do not take theirs lose their connections. The nil Answers has no bounds.
type Answers struct {
	bytes   int64 // of shared
	shared  *semaphore.Weighted
	places  *semaphore.Weighted
	reclaim func()
	waiting prometheus.Gauge
}

// NewAnswers returns the bounds for an agent with so many bytes of memory. reclaim closes connections that do not take their answers.
func NewAnswers(memory int64, reclaim func(), r prometheus.Registerer) *Answers {
	bytes := max(memory/sharedPart, 4*askedAnswer)
	return &Answers{
		bytes: bytes, shared: semaphore.NewWeighted(bytes),
		places: semaphore.NewWeighted(min(max(1, memory/memoryOfPlace), maxPlaces)), reclaim: reclaim,
		waiting: promauto.With(r).NewGauge(prometheus.GaugeOpts{
			Name: "freshet_kafka_answers_waiting", Help: "Requests that wait for the memory of their answer.",
		}),
	}
}

// reserve waits until an answer of so many bytes may be built. Call release, if it is not nil, when the client has taken the answer. The error is
// that of ctx.
func (a *Answers) reserve(ctx context.Context, size int) (release func(), err error) {
	if a == nil || size <= tinyAnswer {
		return nil, nil
	}
	if int64(size) <= a.bytes/4 {
		return a.acquire(ctx, a.shared, int64(size))
	}
	return a.place(ctx)
}

// rooms returns the bytes for which an answer of unknown size is asked, one after the other while it is larger. 0 is any size: a place.
func (a *Answers) rooms() [3]int { return [3]int{askedAnswer, int(a.bytes / 4), 0} }

// place is reserve for an answer of any size.
func (a *Answers) place(ctx context.Context) (release func(), err error) {
	if a == nil {
		return nil, nil
	}
	return a.acquire(ctx, a.places, 1)
}

func (a *Answers) acquire(ctx context.Context, of *semaphore.Weighted, n int64) (release func(), err error) {
	release = func() { of.Release(n) }
	if of.TryAcquire(n) {
		return release, nil
	}
	a.waiting.Inc()
	defer a.waiting.Dec()
	acquired := make(chan error, 1)
	go func() { acquired <- of.Acquire(ctx, n) }()
	tick := time.NewTicker(reclaimEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-acquired:
			return release, err
		case <-tick.C:
			a.reclaim()
		}
	}
}

const (
	// largeRequest is the size of a request's body, in bytes, from which on its elements are counted.
	largeRequest = 16 << 10
	// memoryOfElement is about the memory of an array element of a request and of its part of the answer, in bytes.
	memoryOfElement = 256
)

// counted reports whether the memory of an API's requests and answers follows from the elements of a request. The other APIs count it
// themselves, or wait for other clients.
func counted(key int16) bool {
	switch k := kmsg.Key(key); k {
	case kmsg.Fetch, kmsg.Metadata, kmsg.PushTelemetry:
		return false
	default:
		return !outgrow[k] && !waitsForOthers(key)
	}
}

// within starts a request. One with many elements waits for their memory and that of its answer first.
func (a *Answers) within(ctx context.Context, req *edge.Request, start func(context.Context, *edge.Request) func() edge.Reply) func() edge.Reply {
	if a == nil || len(req.Body) < largeRequest || !counted(req.Key) {
		return start(ctx, req)
	}
	release, err := a.reserve(ctx, memoryOfElement*kafkaproto.CountElements(req.Key, req.Version, req.Body))
	if err != nil {
		return closed // its client is gone
	}
	if release == nil {
		return start(ctx, req)
	}
	started := false
	defer func() {
		if !started {
			release()
		}
	}()
	wait := start(ctx, req)
	started = true
	return func() edge.Reply { return released(wait, release) }
}

// released waits for a reply and hands it the release of its memory. A panic releases the memory.
func released(wait func() edge.Reply, release func()) edge.Reply {
	answered := false
	defer func() {
		if !answered {
			release()
		}
	}()
	reply := wait()
	answered = true
	if own := reply.Release; own != nil {
		mine := release
		release = func() {
			own()
			mine()
		}
	}
	reply.Release = release
	return reply
}

// outgrow are the forwarded APIs whose answers can be far larger than their requests. None of these requests has an effect, so it can be sent
// again for more room.
var outgrow = map[kmsg.Key]bool{
	kmsg.ConsumerGroupDescribe:   true,
	kmsg.DescribeConfigs:         true,
	kmsg.DescribeGroups:          true,
	kmsg.DescribeLogDirs:         true,
	kmsg.DescribeProducers:       true,
	kmsg.DescribeTopicPartitions: true,
	kmsg.DescribeTransactions:    true,
	kmsg.ListConfigResources:     true,
	kmsg.ListGroups:              true,
	kmsg.ListTransactions:        true,
	kmsg.OffsetFetch:             true,
}
