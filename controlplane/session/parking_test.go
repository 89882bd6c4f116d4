package session_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// gapped submits batches that come too early and gives the name to hand them in again by.
func (a *agent) gapped(batches ...batch) id.Submission {
	a.w.t.Helper()
	result, err := a.submit(batches...)
	require.NoError(a.w.t, err)
	for i := range batches {
		require.Equal(a.w.t, commit.Gap, result.Sections[i].Spans[0].Outcome)
	}
	return id.Submission{Session: a.session, N: a.n}
}

// again hands gapped batches in again.
func (a *agent) again(sub id.Submission, batches ...batch) chan *commit.Result {
	answer := make(chan *commit.Result, 1)
	go func() {
		result, err := a.Commit(a.w.t.Context(), encode(sub, true, batches...), time.Time{})
		if err != nil {
			a.w.t.Error(err)
		}
		answer <- result
	}()
	synctest.Wait()
	return answer
}

func outcomes(r *commit.Result) (all []commit.Outcome) {
	for _, section := range r.Sections {
		for _, span := range section.Spans {
			all = append(all, span.Outcome)
		}
	}
	return all
}

func TestParking_ResubmissionWaitsForTheMissingBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
		first, second := w.agent(), w.agent()
		first.opened()
		second.opened()

		// The producer's second batch comes first, through another agent.
		late := batch{tp: tp, producer: 7, sequence: 1}
		sub := second.gapped(late)
		answer := second.again(sub, late)
		time.Sleep(time.Second)
		require.Empty(t, answer, "parked while the first batch is missing")
		_, err := first.submit(batch{tp: tp, producer: 8, sequence: 0}) // another producer's batch wakes it in vain
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, answer)
		_, err = first.submit(batch{tp: tp, producer: 7, sequence: 0})
		require.NoError(t, err)
		result := <-answer
		require.Equal(t, []commit.Span{{Batches: 1, Outcome: commit.Accepted, Base: 2}}, result.Sections[0].Spans)

		// Handed in once more, for its answer was lost: the same offset, no second effect (I3).
		result = <-second.again(sub, late)
		require.Equal(t, []commit.Span{{Batches: 1, Outcome: commit.Duplicate, Base: 2}}, result.Sections[0].Spans)
		first.leave()
		second.leave()
		w.stop(n)
	})
}

func TestParking_EndsWithGapAfterTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
		a := w.agent()
		a.opened()
		late := batch{tp: tp, producer: 7, sequence: 1}
		sub := a.gapped(late)
		before := n.Owner()
		start := time.Now()
		result := <-a.again(sub, late)
		require.Equal(t, []commit.Outcome{commit.Gap}, outcomes(result))
		require.Equal(t, 2*time.Second, time.Since(start).Round(time.Second))
		require.Same(t, before, n.Owner())
		a.leave()
		w.stop(n)
	})
}

// Two agents hold each other's missing batches: producer 1's batch 1 is on A and 2 on B, producer 2's the other way
// round. Each batch is committed once the one before it is, so both agents get answers.
func TestParking_CrosswiseProducersDoNotDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		topic := w.topic(n, "t", 2)
		p0, p1 := id.TopicPartition{Topic: topic}, id.TopicPartition{Topic: topic, Partition: 1}
		a, b, c := w.agent(), w.agent(), w.agent()
		for _, each := range []*agent{a, b, c} {
			each.opened()
		}
		onA := []batch{{p0, 1, 1}, {p1, 2, 2}}
		onB := []batch{{p0, 1, 2}, {p1, 2, 1}}
		subA, subB := a.gapped(onA...), b.gapped(onB...)
		answerA, answerB := a.again(subA, onA...), b.again(subB, onB...)
		_, err := c.submit(batch{p0, 1, 0}, batch{p1, 2, 0})
		require.NoError(t, err)
		start := time.Now()
		var both sync.WaitGroup
		both.Go(func() {
			require.Equal(t, []commit.Span{{Batches: 1, Base: 1}}, (<-answerA).Sections[0].Spans)
		})
		both.Go(func() {
			result := <-answerB
			require.Equal(t, []commit.Span{{Batches: 1, Base: 2}}, result.Sections[0].Spans)
			require.Equal(t, []commit.Span{{Batches: 1, Base: 1}}, result.Sections[1].Spans)
		})
		both.Wait()
		require.Less(t, time.Since(start), time.Second)
		for _, each := range []*agent{a, b, c} {
			each.leave()
		}
		w.stop(n)
	})
}

// A batch of a transaction waits for the one before it, and the transaction ends without ever having come to that
// partition: the batch is late, and its agent is told so at once.
func TestParking_EndOfTheTransactionRefuses(t *testing.T) {
	for _, protocol := range []int8{metadata.ProtocolOne, metadata.ProtocolTwo} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			n := w.start("r1")
			tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
			a := w.agent()
			a.opened()
			propose := func(c metadata.Command) metadata.Result {
				result, _, err := n.Owner().Propose(t.Context(), c)
				require.NoError(t, err)
				require.NoError(t, result.Err)
				return result
			}
			now := func() uint64 {
				index, err := n.Owner().Read(func(*metadata.State) {})
				require.NoError(t, err)
				return index
			}
			init := propose(&metadata.InitTransaction{TransactionalID: "x", TimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1})
			producer := init.Value.(metadata.InitTransactionResult).ProducerID
			ref := metadata.TransactionRef{TransactionalID: "x", ProducerID: producer, Version: protocol, AsOf: now()}
			if protocol == metadata.ProtocolOne {
				propose(&metadata.AddPartitions{TransactionRef: ref, Partitions: []id.TopicPartition{tp}})
			}
			ref.AsOf = now()
			sub := id.Submission{Session: a.session, N: 1}
			encode := func(resubmit bool) []byte {
				var c commit.Builder
				c.Reset(commit.Header{Submission: sub, Bytes: 1000, Resubmit: resubmit})
				c.Section(commit.Section{Partition: tp, Position: 64})
				c.Batch(commit.Batch{
					Records: 1, Bytes: 100, ProducerID: producer, BaseSequence: 1, Transactional: true,
					TransactionVersion: protocol, AsOf: ref.AsOf,
				})
				return c.AppendTo(nil)
			}
			result, err := a.Commit(t.Context(), encode(false), time.Time{})
			require.NoError(t, err)
			require.Equal(t, []commit.Outcome{commit.Gap}, outcomes(result))
			answer := make(chan *commit.Result, 1)
			go func() {
				result, err := a.Commit(t.Context(), encode(true), time.Time{})
				if err != nil {
					t.Error(err)
				}
				answer <- result
			}()
			synctest.Wait()
			require.Empty(t, answer, "parked")
			began := time.Now()
			propose(&metadata.EndTransaction{TransactionRef: ref})
			want := commit.InvalidTxn
			if protocol == metadata.ProtocolTwo {
				want = commit.Fenced
			}
			require.Equal(t, []commit.Outcome{want}, outcomes(<-answer))
			require.Less(t, time.Since(began), time.Second)
			a.leave()
			w.stop(n)
		})
	}
}

// Resubmissions are parked up to a bound of their memory. Beyond it, a further one is answered Gap at once, and is parked again when there
// is room.
func TestParking_BoundsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
		a := w.agent()
		a.opened()
		const batches, room = 60_000, 4 // at 128 bytes, 4 fit into 32 MiB with their commits
		var answers []chan *commit.Result
		for i := range room + 1 {
			var late []batch
			for producer := range batches {
				late = append(late, batch{tp: tp, producer: int64(i*batches + producer), sequence: 1})
			}
			sub := a.gapped(late...)
			answers = append(answers, a.again(sub, late...))
		}
		for _, answer := range answers[:room] {
			require.Empty(t, answer, "parked")
		}
		require.NotEmpty(t, answers[room], "answered at once")
		require.Equal(t, commit.Gap, outcomes(<-answers[room])[0])
		for _, answer := range answers[:room] {
			require.Equal(t, commit.Gap, outcomes(<-answer)[0], "timed out")
		}
		late := batch{tp: tp, producer: 1 << 40, sequence: 1}
		answer := a.again(a.gapped(late), late)
		require.Empty(t, answer, "there is room again")
		<-answer
		a.leave()
		w.stop(n)
	})
}

// TestParking_BoundOfNumber parks as many resubmissions as the bound allows. A further one is answered Gap at once.
func TestParking_BoundOfNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.Parked = 2
		n := w.start("r1")
		tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
		a := w.agent()
		a.opened()
		var answers []chan *commit.Result
		for producer := range int64(3) {
			late := batch{tp: tp, producer: producer, sequence: 1}
			answers = append(answers, a.again(a.gapped(late), late))
		}
		require.Empty(t, answers[0], "parked")
		require.Empty(t, answers[1], "parked")
		require.Len(t, answers[2], 1, "answered at once")
		for _, answer := range answers {
			require.Equal(t, []commit.Outcome{commit.Gap}, outcomes(<-answer))
		}
		a.leave()
		w.stop(n)
	})
}
