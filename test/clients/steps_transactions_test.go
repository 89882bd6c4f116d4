package clients

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/test/harness"
)

// party is a transactional producer at one of the servers.
type party struct {
	*side
	name  string
	id    int64
	epoch int16
	versions
}

// versions are those of one run of the script, by API.
type versions struct{ init, add, offsets, commit, produce, end int16 }

// runs play the script in the first protocol, then in the second.
var runs = []versions{
	{0, 0, 0, 0, 3, 0},
	{1, 1, 1, 1, 5, 1},
	{2, 2, 2, 2, 8, 2},
	{3, 3, 3, 3, 9, 3},
	{4, 3, 4, 4, 10, 4},
	{5, 3, 4, 4, 11, 4},
	{5, 4, 4, 5, 12, 5},
	{5, 5, 4, 5, 13, 5},
}

// act is one request of a transactional producer, or one about it. The acts of a script follow each other.
type act struct {
	name string
	req  func(p *party) kmsg.Request
	// differs says where the answers differ, as a pattern of paths, and why.
	differs map[string]string
	// settles: Kafka's coordinator writes markers after it answered, so it is asked until it has.
	settles bool
}

// Reasons for differences of transactions.
const (
	offsetOrNone   = "Kafka names the log start with some errors; clients do not look at it"
	lastSeenMs     = "the time of the last batch is the owner's here, the batch's in Kafka"
	anotherMessage = "only one of them explains it"
)

// TestDifferential_Transactions plays the same transactions against Freshet and Apache Kafka, in all versions of both
// protocols: every answer has the same codes, epochs and states.
func TestDifferential_Transactions(t *testing.T) {
	t.Parallel()
	kafka := harness.StartKafka(t, abortEvery)
	dev := harness.StartDev(t, "--auto-create-topics=false")
	sides := []*side{newSide(t, dev.Bootstrap), newSide(t, kafka.Bootstrap)}
	for _, s := range sides {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis, req.Topics = 30_000, []kmsg.CreateTopicsRequestTopic{newTopic("t", 3)}
		require.Zero(t, ask[*kmsg.CreateTopicsResponse](t, s.conn, req, 7).Topics[0].ErrorCode)
		for p := range int32(3) {
			awaitLeader(t, s, "t", p)
		}
		s.learn(t)
		awaitCoordinators(t, s)
	}
	awaitProducerIDs(t, sides[1])
	for i, v := range runs {
		t.Run(fmt.Sprintf("%+v", v), func(t *testing.T) {
			parties := []*party{}
			for _, s := range sides {
				parties = append(parties, &party{side: s, name: fmt.Sprint("tx-", i), versions: v, id: -1, epoch: -1})
			}
			for _, a := range script() {
				t.Run(a.name, func(t *testing.T) { a.play(t, parties[0], parties[1]) })
			}
		})
	}
	playLate(t, sides)
}

// awaitCoordinators asks for the coordinators until there are some: Kafka makes their topics when they are asked for.
func awaitCoordinators(t *testing.T, s *side) {
	t.Helper()
	for kind, key := range []string{"g", "tx-0"} {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType, req.CoordinatorKeys = int8(kind), []string{key}
		for end := time.Now().Add(2 * time.Minute); ; {
			if ask[*kmsg.FindCoordinatorResponse](t, s.conn, req, 4).Coordinators[0].ErrorCode == 0 {
				break
			}
			require.True(t, time.Now().Before(end), "no coordinator of %s", key)
		}
	}
}

// passing are codes that Kafka answers until it is ready.
var passing = regexp.MustCompile(fmt.Sprintf(`ErrorCode=(%d|%d|%d|%d)$`, kerr.ConcurrentTransactions.Code,
	kerr.CoordinatorLoadInProgress.Code, kerr.CoordinatorNotAvailable.Code, kerr.NotCoordinator.Code))

func (a act) play(t *testing.T, freshet, kafka *party) {
	t.Helper()
	req := a.req(freshet)
	if req == nil {
		return // not of this protocol
	}
	f := freshet.perform(t, req)
	end := time.Now().Add(2 * time.Minute)
	for {
		k := kafka.perform(t, a.req(kafka))
		waiting := slices.ContainsFunc(slices.Sorted(maps.Keys(k)), func(path string) bool {
			return passing.MatchString(path[strings.LastIndexByte(path, '.')+1:] + "=" + k[path])
		})
		found := a.unexpected(f, k)
		if (waiting || a.settles && len(found) > 0) && time.Now().Before(end) {
			<-time.After(askAgain)
			continue
		}
		for _, d := range found {
			t.Error(d)
		}
		return
	}
}

func (a act) unexpected(f, k map[string]string) []string {
	var out []string
	for _, d := range differences(f, k) {
		if (step{differs: a.differs}).expected(d) == "" {
			out = append(out, d)
		}
	}
	return out
}

// perform sends a request and notes what it says of the producer.
func (p *party) perform(t *testing.T, req kmsg.Request) map[string]string {
	t.Helper()
	resp, err := p.conn.do(req)
	require.NoError(t, err)
	switch r := resp.(type) {
	case *kmsg.InitProducerIDResponse:
		if r.ErrorCode == 0 {
			p.id, p.epoch = r.ProducerID, r.ProducerEpoch
		}
	case *kmsg.DescribeTransactionsResponse:
		for i := range r.TransactionStates[0].Topics { // Kafka gives them in any order
			slices.Sort(r.TransactionStates[0].Topics[i].Partitions)
		}
	case *kmsg.EndTxnResponse:
		if r.ErrorCode == 0 && r.Version >= 5 {
			p.id, p.epoch = r.ProducerID, r.ProducerEpoch
		}
	}
	return digest(resp, nil)
}

func versioned(req kmsg.Request, version int16) kmsg.Request {
	req.SetVersion(version)
	return req
}

func (p *party) initProducer(name string, timeoutMs int32) *kmsg.InitProducerIDRequest {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &name, timeoutMs
	req.SetVersion(p.init)
	return req
}

// addTo is an AddPartitionsToTxn as somebody; nil where the protocol does without.
func (p *party) addTo(name string, id int64, epoch int16, topic string, partitions ...int32) kmsg.Request {
	req := addPartitions(name, id, epoch, topic, 0)
	req.Topics[0].Partitions, req.Transactions[0].Topics[0].Partitions = partitions, partitions
	return versioned(req, p.add)
}

// write is a produce of one record.
func (p *party) write(partition, sequence int32, epoch int16, transactional bool) kmsg.Request {
	records := batchSpec{
		timestamp: time.Now().UnixMilli(),
		change: func(b *kmsg.RecordBatch) {
			b.ProducerID, b.ProducerEpoch, b.FirstSequence = p.id, epoch, sequence
			if transactional {
				b.Attributes |= 0x10
			}
		},
	}.raw()
	req := produceTo("t", p.ids["t"], partition, records)
	req.TransactionID = &p.name
	return versioned(req, p.produce)
}

func (p *party) finish(name string, id int64, epoch int16, commit bool) kmsg.Request {
	return versioned(endTxn(name, id, epoch, commit), p.end)
}

func (p *party) addGroup(epoch int16) kmsg.Request {
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = p.name, p.id, epoch, "g"
	return versioned(req, p.offsets)
}

func (p *party) commitOffset(epoch int16) kmsg.Request {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = p.name, p.id, epoch, "g"
	topic, part := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
	topic.Topic, topic.TopicID, part.Offset = "t", p.ids["t"], 7
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	return versioned(req, p.commit)
}

// second tells whether the run is of the second protocol.
func (p *party) second() bool { return p.end >= 5 }

// script is the life of a transactional producer, with everything that it may get wrong on the way.
func script() []act {
	one := func(name string, req func(p *party) kmsg.Request) act { return act{name: name, req: req} }
	settled := func(name string, req func(p *party) kmsg.Request, pairs ...string) act {
		a := act{name: name, req: req, settles: true, differs: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			a.differs[pairs[i]] = pairs[i+1]
		}
		return a
	}
	produced := func(name string, req func(p *party) kmsg.Request, pairs ...string) act {
		a := settled(name, req, append(pairs, `Topics\[.*LogStartOffset`, offsetOrNone, `Topics\[.*ErrorMessage`, anotherMessage)...)
		a.settles = false
		return a
	}
	describe := func(p *party) kmsg.Request { return versioned(describeTransactions(p.name), 0) }
	producers := func(p *party) kmsg.Request { return versioned(describeProducers("t", 0), 0) }
	noTimes := []string{`.*StartTimestamp`, "two clocks", `.*(LastTimestamp)`, lastSeenMs}
	return []act{
		one("init with no time-out", func(p *party) kmsg.Request { return p.initProducer(p.name, 0) }),
		one("init with too long a time-out", func(p *party) kmsg.Request { return p.initProducer(p.name, 900_001) }),
		one("init without a name", func(p *party) kmsg.Request { return p.initProducer("", 600_000) }),
		one("describe before", describe),
		one("init", func(p *party) kmsg.Request { return p.initProducer(p.name, 600_000) }),
		settled("describe empty", describe, noTimes...),
		one("commit of nothing", func(p *party) kmsg.Request { return p.finish(p.name, p.id, p.epoch, true) }),
		one("abort of nothing", func(p *party) kmsg.Request { return p.finish(p.name, p.id, p.epoch, false) }),
		one("add an unknown topic", func(p *party) kmsg.Request { return p.addTo(p.name, p.id, p.epoch, "none", 0) }),
		one("add an unknown partition and others", func(p *party) kmsg.Request { return p.addTo(p.name, p.id, p.epoch, "t", 0, 9, 1) }),
		one("add unknown partitions twice", func(p *party) kmsg.Request { return p.addTo(p.name, p.id, p.epoch, "t", 0, 9, 0, 9) }),
		one("add with another epoch", func(p *party) kmsg.Request { return p.addTo(p.name, p.id, p.epoch+5, "t", 0) }),
		one("add with another producer", func(p *party) kmsg.Request { return p.addTo(p.name, p.id+1000, p.epoch, "t", 0) }),
		one("add with another name", func(p *party) kmsg.Request { return p.addTo("nobody", p.id, p.epoch, "t", 0) }),
		one("add without a name", func(p *party) kmsg.Request { return p.addTo("", p.id, p.epoch, "t", 0) }),
		produced("write with another name", func(p *party) kmsg.Request {
			req := p.write(0, 0, p.epoch, true).(*kmsg.ProduceRequest)
			req.TransactionID = kmsg.StringPtr("nobody")
			return req
		}),
		produced("write of another producer", func(p *party) kmsg.Request {
			other := *p
			other.id += 1000
			return other.write(0, 0, p.epoch, true)
		}),
		produced("write before adding", func(p *party) kmsg.Request {
			if p.second() {
				return nil
			}
			return p.write(0, 0, p.epoch, true)
		}),
		one("add", func(p *party) kmsg.Request { return p.addTo(p.name, p.id, p.epoch, "t", 0) }),
		one("add again", func(p *party) kmsg.Request { return p.addTo(p.name, p.id, p.epoch, "t", 0) }),
		produced("write", func(p *party) kmsg.Request { return p.write(0, 0, p.epoch, true) }),
		produced("write again", func(p *party) kmsg.Request { return p.write(0, 0, p.epoch, true) }, `.*LogAppendTime`, duplicates),
		produced("write elsewhere", func(p *party) kmsg.Request { return p.write(1, 0, p.epoch, true) }),
		produced("write outside", func(p *party) kmsg.Request { return p.write(0, 1, p.epoch, false) }),
		one("add a group", func(p *party) kmsg.Request { return p.addGroup(p.epoch) }),
		one("add a group with another epoch", func(p *party) kmsg.Request { return p.addGroup(p.epoch + 5) }),
		one("commit an offset", func(p *party) kmsg.Request { return p.commitOffset(p.epoch) }),
		settled("describe ongoing", describe, noTimes...),
		settled("describe producers", producers, noTimes...),
		one("list", func(p *party) kmsg.Request {
			req := kmsg.NewPtrListTransactionsRequest()
			req.StateFilters = []string{"Ongoing", "ongoing"}
			return versioned(req, min(p.add, 2))
		}),
		one("list by pattern", func(p *party) kmsg.Request {
			req := kmsg.NewPtrListTransactionsRequest()
			req.TransactionalIDPattern, req.StateFilters = kmsg.StringPtr("tx-.+"), []string{"Ongoing"}
			return versioned(req, 2)
		}),
		one("list by a pattern that is none", func(*party) kmsg.Request {
			req := kmsg.NewPtrListTransactionsRequest()
			req.TransactionalIDPattern = kmsg.StringPtr("(")
			return versioned(req, 2)
		}),
		one("end with another epoch", func(p *party) kmsg.Request { return p.finish(p.name, p.id, p.epoch+5, true) }),
		one("end with another producer", func(p *party) kmsg.Request { return p.finish(p.name, p.id+1000, p.epoch, true) }),
		one("end with another name", func(p *party) kmsg.Request { return p.finish("nobody", p.id, p.epoch, true) }),
		one("end without a name", func(p *party) kmsg.Request { return p.finish("", p.id, p.epoch, true) }),
		one("commit", func(p *party) kmsg.Request { return p.finish(p.name, p.id, p.epoch, true) }),
		one("commit again", func(p *party) kmsg.Request {
			if p.second() {
				return p.finish(p.name, p.id, p.epoch-1, true)
			}
			return p.finish(p.name, p.id, p.epoch, true)
		}),
		one("abort what is committed", func(p *party) kmsg.Request {
			if p.second() {
				return p.finish(p.name, p.id, p.epoch-1, false)
			}
			return p.finish(p.name, p.id, p.epoch, false)
		}),
		settled("describe complete", describe, noTimes...),
		settled("describe producers after it", producers, noTimes...),
		one("add to the next", func(p *party) kmsg.Request { return p.addTo(p.name, p.id, p.epoch, "t", 0) }),
		produced("write to the next", func(p *party) kmsg.Request {
			if p.second() {
				return p.write(0, 0, p.epoch, true)
			}
			return p.write(0, 1, p.epoch, true)
		}),
		one("init while it is open", func(p *party) kmsg.Request { return p.initProducer(p.name, 600_000) }),
		settled("describe aborted", describe, noTimes...),
		produced("write after being fenced", func(p *party) kmsg.Request { return p.write(0, 2, p.epoch-2, true) }),
		one("add after being fenced", func(p *party) kmsg.Request { return p.addTo(p.name, p.id, p.epoch-2, "t", 0) }),
		one("end after being fenced", func(p *party) kmsg.Request { return p.finish(p.name, p.id, p.epoch-2, true) }),
		one("markers for what is not there", func(p *party) kmsg.Request { return versioned(abortMarker(p.id, p.epoch, "none", 0), 1) }),
		one("markers of an old epoch", func(p *party) kmsg.Request { return versioned(abortMarker(p.id, 0, "t", 0), 1) }),
		one("producers of what is not there", func(*party) kmsg.Request { return versioned(describeProducers("none", 0), 0) }),
		one("producers of a partition that is not there", func(*party) kmsg.Request { return versioned(describeProducers("t", 9), 0) }),
	}
}
