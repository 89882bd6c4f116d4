package session_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

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
		result, err := a.Commit(a.w.t.Context(), encode(sub, true, batches...))
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
		time.Sleep(5 * time.Second)
		require.Empty(t, answer, "parked while the first batch is missing")
		_, err := first.submit(batch{tp: tp, producer: 8, sequence: 0}) // somebody else's batch wakes it for nothing
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
		require.Equal(t, 10*time.Second, time.Since(start).Round(time.Second))
		require.Same(t, before, n.Owner())
		a.leave()
		w.stop(n)
	})
}

// Two agents hold each other's missing batches: producer 1's batch 1 is on A and 2 on B, producer 2's the other way
// round. What can go on goes on, so nobody waits for ever.
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
