package group_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// commitRequest commits an offset of one partition, by a client without membership.
func commitRequest(name, topic string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	in := kmsg.NewPtrOffsetCommitRequest()
	in.Group, in.Generation = name, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = topic, topicID(topic)
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset, rp.Metadata = partition, offset, kmsg.StringPtr("note")
	rt.Partitions = append(rt.Partitions, rp)
	in.Topics = append(in.Topics, rt)
	return in
}

func commitCode(w *world, in *kmsg.OffsetCommitRequest, version int16) int16 {
	w.t.Helper()
	out := ask[*kmsg.OffsetCommitResponse](w, in, version)
	require.Len(w.t, out.Topics, 1)
	return out.Topics[0].Partitions[0].ErrorCode
}

func commitPlain(w *world, name, topic string, partition int32, offset int64) {
	w.t.Helper()
	require.Zero(w.t, commitCode(w, commitRequest(name, topic, partition, offset), 9))
}

// commitAs commits as a member of the group.
func commitAs(w *world, name, memberID string, epoch int32, version int16) int16 {
	w.t.Helper()
	in := commitRequest(name, "t", 0, 5)
	in.MemberID, in.Generation = memberID, epoch
	return commitCode(w, in, version)
}

// fetched is what OffsetFetch gives of one partition.
type fetched struct {
	offset int64
	code   int16
}

// fetch asks for partition 0 of t, or for everything.
func fetch(w *world, name string, version int16, all, stable bool) (code int16, got []fetched) {
	w.t.Helper()
	in := kmsg.NewPtrOffsetFetchRequest()
	in.RequireStable = stable
	if version < 8 {
		in.Group = name
		if !all {
			in.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
		}
	} else {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = name
		if !all {
			g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", TopicID: topicID("t"), Partitions: []int32{0}}}
		}
		in.Groups = append(in.Groups, g)
	}
	out := ask[*kmsg.OffsetFetchResponse](w, in, version)
	for _, t := range out.Topics {
		for _, p := range t.Partitions {
			got = append(got, fetched{p.Offset, p.ErrorCode})
		}
	}
	if version < 8 {
		return out.ErrorCode, got
	}
	for _, t := range out.Groups[0].Topics {
		for _, p := range t.Partitions {
			got = append(got, fetched{p.Offset, p.ErrorCode})
		}
	}
	return out.Groups[0].ErrorCode, got
}

func TestOffsets_EveryVersion(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		for version := int16(2); version <= 10; version++ {
			require.Zero(t, commitCode(w, commitRequest("g", "t", 0, int64(version)), version), "version %d", version)
		}
		for version := int16(1); version <= 10; version++ {
			code, got := fetch(w, "g", version, false, false)
			require.Zero(t, code)
			require.Equal(t, []fetched{{10, 0}}, got, "version %d", version)
			if version >= 2 {
				_, got = fetch(w, "g", version, true, version >= 7)
				require.Equal(t, []fetched{{10, 0}}, got, "version %d", version)
			}
			_, got = fetch(w, "missing", version, false, false)
			require.Equal(t, []fetched{{-1, 0}}, got, "version %d", version)
		}
	})
}

func TestOffsets_Refused(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		require.Equal(t, kerr.UnknownTopicOrPartition.Code, commitCode(w, commitRequest("g", "nope", 0, 1), 9))
		require.Equal(t, kerr.UnknownTopicOrPartition.Code, commitCode(w, commitRequest("g", "t", 3, 1), 9))
		require.Equal(t, kerr.UnknownTopicID.Code, commitCode(w, commitRequest("g", "nope", 0, 1), 10))
		in := commitRequest("g", "t", 0, 1)
		in.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("é", 4096))
		require.Zero(t, commitCode(w, in, 9), "characters count, not bytes")
		in.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("x", 4097))
		require.Equal(t, kerr.OffsetMetadataTooLarge.Code, commitCode(w, in, 9))
		require.Equal(t, kerr.IllegalGeneration.Code, commitAs(w, "missing", "m", 1, 8))
		require.Equal(t, kerr.GroupIDNotFound.Code, commitAs(w, "missing", "m", 1, 9))

		m := w.join("members")
		require.Equal(t, kerr.UnknownMemberID.Code, commitCode(w, commitRequest("members", "t", 0, 1), 9), "only members may")
		require.Zero(t, commitAs(w, "members", m.id, m.generation, 9))
		require.Equal(t, kerr.IllegalGeneration.Code, commitAs(w, "members", m.id, m.generation+1, 9))
	})
}

// What one client commits later is later in the log, whatever is under way.
func TestOffsets_PipelinedCommitsKeepTheirOrder(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		var answers []func() (*kmsg.OffsetCommitResponse, error)
		for i := range 50 {
			answers = append(answers, send[*kmsg.OffsetCommitResponse](w, commitRequest("g", "t", 0, int64(i)), 9))
		}
		commitPlain(w, "g", "t", 1, 1)
		for _, answer := range answers {
			_, err := answer()
			require.NoError(t, err)
		}
		_, got := fetch(w, "g", 9, false, false)
		require.Equal(t, []fetched{{49, 0}}, got)
	})
}

// Commits that find the owner's queue full are taken in their order, too: the later one may be its member's second try, of
// more, by another agent.
func TestOffsets_CommitsKeepTheirOrderWhileTheQueueIsFull(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		free := w.owner.fill()
		var answers []func() (*kmsg.OffsetCommitResponse, error)
		for i := range 50 {
			answers = append(answers, send[*kmsg.OffsetCommitResponse](w, commitRequest("g", "t", 0, int64(i)), 9))
			synctest.Wait()
		}
		free()
		synctest.Wait()
		commitPlain(w, "g", "t", 1, 1)
		for _, answer := range answers {
			_, err := answer()
			require.NoError(t, err)
		}
		_, got := fetch(w, "g", 9, false, false)
		require.Equal(t, []fetched{{49, 0}}, got)
	})
}

// All groups share one place among the waiters for room in the owner's queue. With one command a turn, a thousand commits would
// wait for a thousand turns of other waiters.
func TestOffsets_AFullQueueIsThroughInAFewTurns(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		const groups = 500
		free := w.owner.fill()
		before := w.owner.turns.Load()
		var answers []func() (*kmsg.OffsetCommitResponse, error)
		for offset := range int64(2) {
			for g := range groups {
				in := commitRequest("g"+strconv.Itoa(g), "t", 0, offset)
				answers = append(answers, send[*kmsg.OffsetCommitResponse](w, in, 9))
			}
		}
		synctest.Wait()
		free()
		synctest.Wait()
		require.LessOrEqual(t, w.owner.turns.Load()-before, int64(10))
		for _, answer := range answers {
			out, err := answer()
			require.NoError(t, err)
			require.Zero(t, out.Topics[0].Partitions[0].ErrorCode)
		}
		for g := range groups {
			_, got := fetch(w, "g"+strconv.Itoa(g), 9, false, false)
			require.Equal(t, []fetched{{1, 0}}, got, "the later commit of each")
		}
	})
}

func deleteOffsets(w *world, name string, partitions ...int32) (code int16, codes []int16) {
	w.t.Helper()
	in := kmsg.NewPtrOffsetDeleteRequest()
	in.Group = name
	rt := kmsg.NewOffsetDeleteRequestTopic()
	rt.Topic = "t"
	for _, n := range partitions {
		rt.Partitions = append(rt.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: n})
	}
	in.Topics = append(in.Topics, rt)
	out := ask[*kmsg.OffsetDeleteResponse](w, in, 0)
	for _, topic := range out.Topics {
		for _, p := range topic.Partitions {
			codes = append(codes, p.ErrorCode)
		}
	}
	return out.ErrorCode, codes
}

func TestOffsets_Delete(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		code, _ := deleteOffsets(w, "missing", 0)
		require.Equal(t, kerr.GroupIDNotFound.Code, code)
		commitPlain(w, "g", "t", 0, 3)
		code, codes := deleteOffsets(w, "g", 0, 7)
		require.Zero(t, code)
		require.Equal(t, []int16{kerr.UnknownTopicOrPartition.Code, 0}, codes, "what the broker refuses comes first")
		_, got := fetch(w, "g", 9, true, false)
		require.Empty(t, got)
		m := w.join("members")
		require.Zero(t, commitAs(w, "members", m.id, m.generation, 9))
		code, codes = deleteOffsets(w, "members", 0)
		require.Zero(t, code)
		require.Equal(t, []int16{kerr.GroupSubscribedToTopic.Code}, codes)
	})
}

// Offsets go when their retention is over: from their commit on, or from when the group became empty. A group that has
// nothing left goes with them.
func TestOffsets_Expire(t *testing.T) {
	settings := quick
	settings.OffsetsRetention, settings.OffsetsRetentionCheck = time.Minute, 10*time.Second
	inWorld(t, settings, func(w *world) {
		commitPlain(w, "simple", "t", 0, 1)
		m := w.join("g")
		require.Zero(t, commitAs(w, "g", m.id, m.generation, 9))
		for range 15 {
			time.Sleep(5 * time.Second) // sleeps: the bubble's time passes at once
			require.Zero(t, m.heartbeat(w))
		}
		_, got := fetch(w, "simple", 9, false, false)
		require.Equal(t, []fetched{{-1, 0}}, got)
		w.read(func(s *metadata.State) {
			_, ok := s.Group("simple")
			require.False(t, ok)
		})
		_, got = fetch(w, "g", 9, false, false)
		require.Equal(t, []fetched{{5, 0}}, got, "a member subscribes")
		m.leave(w)
		time.Sleep(50 * time.Second) // sleeps: the bubble's time passes at once
		_, got = fetch(w, "g", 9, false, false)
		require.Equal(t, []fetched{{5, 0}}, got, "empty for less than the retention")
		time.Sleep(25 * time.Second) // sleeps: the bubble's time passes at once
		w.read(func(s *metadata.State) { require.Zero(t, s.GroupCount()) })
	})
}

// A group outlives the deletion of the only topic it has offsets of, as long as that can be taken back.
func TestOffsets_ComeBackWithTheirTopic(t *testing.T) {
	settings := quick
	settings.OffsetsRetention, settings.OffsetsRetentionCheck = time.Hour, 10*time.Second
	inWorld(t, settings, func(w *world) {
		commitPlain(w, "simple", "t", 0, 1)
		var topic id.Topic
		w.read(func(s *metadata.State) {
			found, ok := s.TopicByName("t")
			require.True(t, ok)
			topic = found.ID
		})
		for _, c := range []metadata.Command{
			&metadata.DeleteTopic{ID: topic, KeepMs: 1_000_000}, &metadata.Tick{}, &metadata.UndeleteTopic{ID: topic},
		} {
			w.propose(c)
			time.Sleep(time.Minute) // sleeps: the bubble's time passes at once
		}
		_, got := fetch(w, "simple", 9, false, false)
		require.Equal(t, []fetched{{1, 0}}, got)
	})
}

// The clock of the owner's machine is set ahead. Command time, which knows better, stays, and with it the offsets.
func TestOffsets_StayWhenTheClockIsAhead(t *testing.T) {
	settings := quick
	settings.OffsetsRetention, settings.OffsetsRetentionCheck = time.Minute, 10*time.Second
	inWorld(t, settings, func(w *world) {
		commitPlain(w, "simple", "t", 0, 1)
		now := time.Now()
		w.stands.Store(&now)
		time.Sleep(2 * time.Minute) // sleeps: the bubble's time passes at once
		_, got := fetch(w, "simple", 9, false, false)
		require.Equal(t, []fetched{{1, 0}}, got)
		w.stands.Store(nil)
		time.Sleep(21 * time.Second) // sleeps: until the next Tick and look
		_, got = fetch(w, "simple", 9, false, false)
		require.Equal(t, []fetched{{-1, 0}}, got)
	})
}

// Offsets of a transaction: pending until it ends.
func TestOffsets_Transactional(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		begun, in := beginTransaction(w, "x")
		code := func(in *kmsg.TxnOffsetCommitRequest) int16 {
			return ask[*kmsg.TxnOffsetCommitResponse](w, in, 5).Topics[0].Partitions[0].ErrorCode
		}
		require.Zero(t, code(in))
		_, got := fetch(w, "g", 9, false, false)
		require.Equal(t, []fetched{{-1, 0}}, got)
		_, got = fetch(w, "g", 9, false, true)
		require.Equal(t, []fetched{{-1, kerr.UnstableOffsetCommit.Code}}, got)
		w.propose(&metadata.EndTransaction{TransactionRef: metadata.TransactionRef{
			TransactionalID: "x", ProducerID: begun.ProducerID, Epoch: begun.Epoch, Version: metadata.ProtocolTwo,
		}, Commit: true})
		_, got = fetch(w, "g", 9, false, true)
		require.Equal(t, []fetched{{42, 0}}, got)
		require.Equal(t, kerr.InvalidProducerEpoch.Code, code(in), "the epoch rose")
		in.ProducerID++
		require.Equal(t, kerr.InvalidProducerIDMapping.Code, code(in))
		in.Generation, in.MemberID = 3, "m"
		in.Group = "missing"
		require.Equal(t, kerr.InvalidProducerIDMapping.Code, code(in), "the transaction is asked before the group")
	})
}

// beginTransaction makes a transactional id known, and returns a TxnOffsetCommit of its producer.
func beginTransaction(w *world, name string) (metadata.InitTransactionResult, *kmsg.TxnOffsetCommitRequest) {
	w.t.Helper()
	begun := w.propose(&metadata.InitTransaction{
		TransactionalID: name, TimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1,
	}).Value.(metadata.InitTransactionResult)
	in := kmsg.NewPtrTxnOffsetCommitRequest()
	in.Group, in.TransactionalID, in.ProducerID, in.ProducerEpoch = "g", name, begun.ProducerID, begun.Epoch
	in.Generation = -1
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic = "t"
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Offset = 42
	rt.Partitions = append(rt.Partitions, rp)
	in.Topics = append(in.Topics, rt)
	return begun, in
}

// A commit that the group refuses still makes the group part of a transaction of the second protocol, as in Kafka, and
// needs a transaction that it may be part of in the first one.
func TestOffsets_TransactionalRefusedByTheGroup(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		_, in := beginTransaction(w, "x")
		in.Generation, in.MemberID = 3, "m"
		code := func(version int16) int16 {
			return ask[*kmsg.TxnOffsetCommitResponse](w, in, version).Topics[0].Partitions[0].ErrorCode
		}
		state := func() (state metadata.TransactionState) {
			w.read(func(s *metadata.State) {
				info, ok := s.Transaction("x")
				require.True(t, ok)
				state = info.State
			})
			return state
		}
		require.Equal(t, kerr.InvalidTxnState.Code, code(3), "the group was not added")
		require.Equal(t, kerr.TransactionAbortable.Code, code(4))
		require.Equal(t, metadata.TransactionEmpty, state())
		require.Equal(t, kerr.IllegalGeneration.Code, code(5))
		require.Equal(t, metadata.TransactionOngoing, state())
		w.read(func(s *metadata.State) { require.Zero(t, s.GroupCount()) })
	})
}

// Version 6 names topics by id, and has an error of its own for a group that does not exist (KIP-1319).
func TestOffsets_TransactionalByTopicID(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		_, in := beginTransaction(w, "x")
		named := in.Topics[0]
		named.Topic, named.TopicID = "", topicID("t")
		unknown := named
		unknown.TopicID = [16]byte{99}
		in.Topics = []kmsg.TxnOffsetCommitRequestTopic{named, unknown}
		codes := func() map[[16]byte]int16 {
			codes := map[[16]byte]int16{}
			for _, topic := range ask[*kmsg.TxnOffsetCommitResponse](w, in, 6).Topics {
				codes[topic.TopicID] = topic.Partitions[0].ErrorCode
			}
			return codes
		}
		require.Equal(t, map[[16]byte]int16{topicID("t"): 0, {99}: kerr.UnknownTopicID.Code}, codes())
		in.Group, in.Generation, in.MemberID = "missing", 3, "m"
		require.Equal(t, map[[16]byte]int16{topicID("t"): kerr.GroupIDNotFound.Code, {99}: kerr.UnknownTopicID.Code}, codes())
	})
}

// The group's error comes before those of partitions that do not exist.
func TestOffsets_DeleteUnknownPartitionsOfAnUnknownGroup(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		code, codes := deleteOffsets(w, "missing", 8, 9)
		require.Equal(t, kerr.GroupIDNotFound.Code, code)
		require.Empty(t, codes)
		code, _ = deleteOffsets(w, "", 9)
		require.Equal(t, kerr.InvalidGroupID.Code, code)
		commitPlain(w, "g", "t", 0, 3)
		code, codes = deleteOffsets(w, "g", 9)
		require.Zero(t, code)
		require.Equal(t, []int16{kerr.UnknownTopicOrPartition.Code}, codes)
	})
}

// The pending offsets of a group are bounded: clients abort a transaction that would add more.
func TestOffsets_TooMuchPending(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		begin := func(name string) *metadata.TransactionRef {
			p := w.propose(&metadata.InitTransaction{
				TransactionalID: name, TimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1,
			}).Value.(metadata.InitTransactionResult)
			return &metadata.TransactionRef{TransactionalID: name, ProducerID: p.ProducerID, Epoch: p.Epoch, Version: metadata.ProtocolTwo}
		}
		var topic id.Topic
		_, err := w.owner.Read(func(s *metadata.State) {
			found, _ := s.TopicByName("t")
			topic = found.ID
		})
		require.NoError(t, err)
		const writers = 4
		for n := range writers {
			w.propose(&metadata.CommitOffsets{Group: "g", Transaction: begin(fmt.Sprint(n)), Offsets: []metadata.OffsetCommit{{
				Partition: id.TopicPartition{Topic: topic}, Metadata: strings.Repeat("x", metadata.MaxPendingBytes/writers-100), ExpiresMs: -1,
			}}})
		}
		x := begin("x")
		in := kmsg.NewPtrTxnOffsetCommitRequest()
		in.Group, in.TransactionalID, in.ProducerID, in.ProducerEpoch, in.Generation = "g", "x", x.ProducerID, x.Epoch, -1
		rt := kmsg.NewTxnOffsetCommitRequestTopic()
		rt.Topic = "t"
		rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		rp.Metadata = kmsg.StringPtr(strings.Repeat("x", 1000))
		rt.Partitions = append(rt.Partitions, rp)
		in.Topics = append(in.Topics, rt)
		answer := ask[*kmsg.TxnOffsetCommitResponse](w, in, 5)
		require.Equal(t, kerr.TransactionAbortable.Code, answer.Topics[0].Partitions[0].ErrorCode)
	})
}

// A topic's offsets go with it, and do not come back with a new topic of its name.
func TestOffsets_OfADeletedTopic(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		commitPlain(w, "g", "t", 0, 3)
		w.propose(&metadata.DeleteTopic{ID: id.Topic(topicID("t"))})
		_, got := fetch(w, "g", 9, false, false)
		require.Equal(t, []fetched{{-1, 0}}, got)
		w.propose(&metadata.CreateTopic{ID: id.Topic{99}, Name: "t", Partitions: 1})
		_, got = fetch(w, "g", 9, false, false)
		require.Equal(t, []fetched{{-1, 0}}, got)
	})
}
