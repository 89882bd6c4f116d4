package differential

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// server is one of the two that get the same requests.
type server struct {
	name      string
	addresses []string // clients are spread over them
	topics    map[string][16]byte
	moves     bool // connections break while the coordinators move
}

// Topics of groups, with their partitions. Every sequence uses them: groups only read metadata and offsets.
var groupTopics = map[string]int32{"one": 1, "two": 2, "four": 4, "six": 6}

// txnPartitions is the number of partitions of a topic that transactions write to. Each worker has one.
const txnPartitions = 3

func txnTopic(worker int) string { return fmt.Sprint("log-", worker) }

// settleLimit bounds the wait for a server to be ready or for an answer to become final.
const settleLimit = time.Minute

// prepare creates the topics and waits until groups, transactions and producer ids are served.
func (s *server) prepare(t *testing.T, workers int) {
	t.Helper()
	w := &wire{address: s.addresses[0], clientID: "prepare"}
	defer w.close()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 30_000
	add := func(name string, partitions int32) {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
		create.Topics = append(create.Topics, topic)
	}
	for name, partitions := range groupTopics {
		add(name, partitions)
	}
	for i := range workers {
		add(txnTopic(i), txnPartitions)
	}
	create.SetVersion(7)
	resp, err := w.do(create)
	require.NoError(t, err)
	s.topics = map[string][16]byte{}
	for _, topic := range resp.(*kmsg.CreateTopicsResponse).Topics {
		require.Zero(t, topic.ErrorCode, kerr.ErrorForCode(topic.ErrorCode))
		s.topics[topic.Topic] = topic.TopicID
	}
	for i := range workers {
		for p := range int32(txnPartitions) {
			awaitCode(t, w, listEnd(txnTopic(i), p, 0), func(r kmsg.Response) int16 {
				return r.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode
			})
		}
	}
	for kind := range int8(2) {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorType, find.CoordinatorKeys = kind, []string{"prepare"}
		find.SetVersion(4)
		awaitCode(t, w, find, func(r kmsg.Response) int16 { return r.(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode })
	}
	for i := range 20 { // some of them in every partition of the coordinators' topics
		init := kmsg.NewPtrInitProducerIDRequest()
		id := fmt.Sprint("prepare-", i)
		init.TransactionalID, init.TransactionTimeoutMillis = &id, 60_000
		init.SetVersion(4)
		awaitCode(t, w, init, func(r kmsg.Response) int16 { return r.(*kmsg.InitProducerIDResponse).ErrorCode })
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.Groups = []kmsg.OffsetFetchRequestGroup{{Group: id, MemberEpoch: -1}}
		fetch.SetVersion(9)
		awaitCode(t, w, fetch, func(r kmsg.Response) int16 { return r.(*kmsg.OffsetFetchResponse).Groups[0].ErrorCode })
	}
}

// awaitCode repeats a request until its code is 0.
func awaitCode(t *testing.T, w *wire, req kmsg.Request, code func(kmsg.Response) int16) {
	t.Helper()
	require.Eventually(t, func() bool {
		resp, err := w.do(req)
		return err == nil && code(resp) == 0
	}, settleLimit, 20*time.Millisecond, kmsg.NameForKey(req.Key()))
}

// listEnd asks for the end of a partition; isolation 1 asks for the last stable offset.
func listEnd(topic string, partition int32, isolation int8) kmsg.Request {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, isolation
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, -1, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	req.SetVersion(7)
	return req
}

// passing are codes that a server answers until it is ready: clients ask again.
var passing = []int16{
	kerr.ConcurrentTransactions.Code, kerr.CoordinatorLoadInProgress.Code, kerr.CoordinatorNotAvailable.Code,
	kerr.NotCoordinator.Code, kerr.NotLeaderForPartition.Code, kerr.NotEnoughReplicas.Code,
}

func isPassing(code int16) bool { return slices.Contains(passing, code) }
