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
	// askedAnswer is the maximum size, in bytes, of an answer that the agent asks the control plane for at first. If the answer is larger, the
	// agent asks again with more room (rooms).
	askedAnswer = 256 << 10
	// tinyAnswer is the size, in bytes, up to which answers are not counted. They fit the buffer of a socket.
	tinyAnswer = 64 << 10
	// sharedPart is the divisor of the memory limit for the bytes that answers without a place share: a fiftieth, 2 %.
	sharedPart = 50
	// memoryOfPlace is the part of the memory limit, in bytes, for which there is one place. A place holds one answer of any size, up to
	// session.MaxAnswerBytes.
	memoryOfPlace = 512 << 20
	maxPlaces     = 4
	reclaimEvery  = 250 * time.Millisecond
)

// Answers bounds the memory of answers without records. An answer is counted before it is built and until its client has taken it. While an answer waits
// for memory, clients that do not take their answers lose their connections. A nil *Answers has no bounds.
type Answers struct {
	bytes  int64 // size of shared, and of names
	shared *semaphore.Weighted
	places *semaphore.Weighted
	// names bounds the memory of large Metadata requests. A request holds names while it waits for the memory of its answer in shared or places. With one
	// semaphore for both, requests could wait for each other.
	names   *semaphore.Weighted
	reclaim func()
	waiting prometheus.Gauge
}

// NewAnswers returns the bounds for an agent with a memory limit, in bytes. reclaim closes connections that do not take their answers.
func NewAnswers(memory int64, reclaim func(), r prometheus.Registerer) *Answers {
	bytes := max(memory/sharedPart, 4*askedAnswer)
	return &Answers{
		bytes: bytes, shared: semaphore.NewWeighted(bytes), names: semaphore.NewWeighted(bytes),
		places: semaphore.NewWeighted(min(max(1, memory/memoryOfPlace), maxPlaces)), reclaim: reclaim,
		waiting: promauto.With(r).NewGauge(prometheus.GaugeOpts{
			Name: "freshet_kafka_answers_waiting", Help: "Requests that wait for the memory of their answer.",
		}),
	}
}

// reserve waits until an answer of size bytes may be built. The caller calls release, unless it is nil, when the client has taken the answer. reserve returns
// the error of ctx if ctx ends first.
func (a *Answers) reserve(ctx context.Context, size int) (release func(), err error) {
	if a == nil || size <= tinyAnswer {
		return nil, nil
	}
	if int64(size) <= a.bytes/4 {
		return a.acquire(ctx, a.shared, int64(size))
	}
	return a.place(ctx)
}

// rooms returns the maximum sizes, in bytes, with which the agent asks for an answer of unknown size, one after the other until the answer fits.
// 0 means any size: the answer takes a place.
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
	// largeRequest is the minimum size, in bytes, of request bodies that within bounds by their elements.
	largeRequest = 16 << 10
	// memoryOfElement is the estimated memory of an array element of a request and of its part of the answer, in bytes.
	memoryOfElement = 256
)

// counted reports whether within estimates the memory of an API's requests and answers from the elements of the request. The handlers of the
// other APIs count their memory themselves, or their requests wait for other clients.
func counted(key int16) bool {
	switch k := kmsg.Key(key); k {
	case kmsg.Fetch, kmsg.PushTelemetry:
		return false
	default:
		return !outgrow[k] && !waitsForOthers(key)
	}
}

// within starts a request and returns the function that waits for its reply. A request of largeRequest bytes or more first waits for the memory
// of its elements and of its answer.
func (a *Answers) within(ctx context.Context, req *edge.Request, start func(context.Context, *edge.Request) func() edge.Reply) func() edge.Reply {
	if a == nil || len(req.Body) < largeRequest || !counted(req.Key) {
		return start(ctx, req)
	}
	release, err := a.forElements(ctx, req.Key, memoryOfElement*kafkaproto.CountElements(req.Key, req.Version, req.Body))
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

// forElements is reserve for the size of a request's elements. Metadata requests reserve names instead.
func (a *Answers) forElements(ctx context.Context, key int16, size int) (release func(), err error) {
	if key == int16(kmsg.Metadata) && size > tinyAnswer {
		return a.acquire(ctx, a.names, min(int64(size), a.bytes))
	}
	return a.reserve(ctx, size)
}

// released waits for a reply, and makes release a part of the reply's Release. If wait panics, it calls release at once.
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

// outgrow is the set of forwarded APIs whose answers can be far larger than their requests. These requests change nothing, so the agent can send one again
// with more room for its answer.
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
