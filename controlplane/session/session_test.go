package session_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

func TestSession_OpensCommitsAndLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		topic := w.topic(n, "t", 2)
		a := w.agent()
		a.opened()
		require.Equal(t, "vc1/bundles/", a.BundlePrefix())
		require.Len(t, a.NodeIDs(), 1)

		tp := id.TopicPartition{Topic: topic}
		for i := range int64(3) {
			result, err := a.submit(plain(tp))
			require.NoError(t, err)
			require.Equal(t, []commit.Span{{Batches: 1, Base: i}}, result.Sections[0].Spans)
		}
		index, err := a.Fresh(t.Context())
		require.NoError(t, err)
		require.Positive(t, index)
		a.read(func() { require.Contains(t, a.topics, "t"); require.Equal(t, 1, a.members) })

		require.NoError(t, a.Drain(t.Context()))
		a.read(func() { require.Equal(t, 0, a.members) })
		_, err = a.submit(plain(tp))
		require.NoError(t, err, "a draining agent still commits")

		require.NoError(t, a.Goodbye(t.Context()))
		require.NoError(t, <-a.ended, "goodbye ends the session")
		a.read(func() { require.Zero(t, a.closed, "an agent that leaves is not told that it was closed") })
		w.stop(n)
	})
}

func TestSession_ResumesOnAnotherOwnerWithTheSameAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		topic := w.topic(n, "t", 1)
		other := w.start("r2")
		a := w.agent()
		a.opened()
		tp := id.TopicPartition{Topic: topic}
		a.subscribe(tp)

		// Commits from several goroutines go on while the first owner hands over to the second.
		var committing sync.WaitGroup
		var mu sync.Mutex
		bases := map[int64]int{}
		for range 50 {
			committing.Go(func() {
				result, err := a.submit(plain(tp))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				bases[result.Sections[0].Spans[0].Base]++
				mu.Unlock()
			})
		}
		w.stop(n)
		committing.Wait()
		require.Len(t, bases, 50, "every submission has an offset of its own")
		for i := range int64(50) {
			require.Equal(t, 1, bases[i], "offset %d", i)
		}
		w.waitFor("the second owner", func() bool { return other.Owner() != nil }) // all answers may be the first owner's

		// The first submission again, to the second owner: the answer of the first.
		result, err := a.Commit(t.Context(), encode(id.Submission{Session: a.ID(), N: 1}, false, plain(tp)), time.Time{})
		require.NoError(t, err)
		require.Equal(t, commit.Settled, result.Status)
		a.read(func() { require.Zero(t, a.closed); require.Equal(t, id.Session(1), a.session) })
		a.leave()
		w.stop(other)
	})
}

func TestSession_NoticesHaveNoGapUnderConcurrentCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		topic := w.topic(n, "t", 4)
		writer, reader := w.agent(), w.agent()
		writer.opened()
		reader.opened()
		var committing sync.WaitGroup
		for range 4 {
			committing.Go(func() {
				for range 100 {
					var all []batch
					for p := range int32(4) {
						all = append(all, plain(id.TopicPartition{Topic: topic, Partition: p}))
					}
					if _, err := writer.submit(all...); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 30 { // subscribing again and again while commits come
			for p := range int32(4) {
				reader.subscribe(id.TopicPartition{Topic: topic, Partition: p})
			}
		}
		committing.Wait()
		_, err := reader.Fresh(t.Context())
		require.NoError(t, err)
		reader.read(func() {
			require.Empty(t, reader.events)
			for p := range int32(4) {
				require.Equal(t, int64(400), reader.marks[id.TopicPartition{Topic: topic, Partition: p}])
			}
		})
		// Unsubscribed partitions are silent.
		reader.Unsubscribe([]id.TopicPartition{{Topic: topic}})
		_, err = reader.Fresh(t.Context())
		require.NoError(t, err)
		_, err = writer.submit(plain(id.TopicPartition{Topic: topic}))
		require.NoError(t, err)
		_, err = reader.Fresh(t.Context())
		require.NoError(t, err)
		reader.read(func() { require.Equal(t, int64(400), reader.marks[id.TopicPartition{Topic: topic}]) })
		writer.leave()
		reader.leave()
		w.stop(n)
	})
}

func TestSession_FreshCoversWhatWasCommittedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		topic := w.topic(n, "t", 1)
		tp := id.TopicPartition{Topic: topic}
		writer, reader := w.agent(), w.agent()
		writer.opened()
		reader.opened()
		reader.subscribe(tp)
		for i := range int64(50) {
			_, err := writer.submit(plain(tp))
			require.NoError(t, err)
			_, err = reader.Fresh(t.Context())
			require.NoError(t, err)
			reader.read(func() { require.Equal(t, i+1, reader.marks[tp], "the reader's own probe shows the commit (I4)") })
		}
		writer.leave()
		reader.leave()
		w.stop(n)
	})
}

func TestSession_EarlySubmissionIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
		a := w.agent()
		a.opened()
		type answer struct {
			result *commit.Result
			err    error
		}
		answers := make([]chan answer, 4)
		for i := 3; i >= 1; i-- {
			answers[i] = make(chan answer, 1)
			go func() {
				result, err := a.Commit(t.Context(), encode(id.Submission{Session: a.ID(), N: uint32(i)}, false, plain(tp)), time.Time{})
				answers[i] <- answer{result, err}
			}()
			time.Sleep(time.Second)
			if i > 1 {
				select {
				case got := <-answers[i]:
					t.Fatalf("submission %d was answered before the first came: %+v", i, got)
				default:
				}
			}
		}
		for i := 1; i <= 3; i++ {
			got := <-answers[i]
			require.NoError(t, got.err)
			require.Equal(t, int64(i-1), got.result.Sections[0].Spans[0].Base, "offsets follow n (I2)")
		}

		// An n that never comes: those behind it are given up after a minute, and settled once it is abandoned.
		start := time.Now()
		_, err := a.Commit(t.Context(), encode(id.Submission{Session: a.ID(), N: 5}, false, plain(tp)), time.Time{})
		require.ErrorIs(t, err, client.ErrUnavailable)
		require.Equal(t, time.Minute, time.Since(start).Round(time.Second))
		result, err := a.Abandon(t.Context(), id.Submission{Session: a.ID(), N: 4})
		require.NoError(t, err)
		require.Equal(t, commit.Abandoned, result.Status)
		result, err = a.Commit(t.Context(), encode(id.Submission{Session: a.ID(), N: 5}, false, plain(tp)), time.Time{})
		require.NoError(t, err)
		require.Equal(t, int64(3), result.Sections[0].Spans[0].Base)

		// A submission of an earlier session cannot be abandoned in this one.
		_, err = a.Abandon(t.Context(), id.Submission{Session: a.ID() + 1, N: 6})
		require.ErrorIs(t, err, client.ErrSessionClosed)
		result, err = a.Commit(t.Context(), encode(id.Submission{Session: a.ID(), N: 6}, false, plain(tp)), time.Time{})
		require.NoError(t, err)
		require.Equal(t, int64(4), result.Sections[0].Spans[0].Base)
		a.leave()
		w.stop(n)
	})
}

// Early submissions fill the bounds: the one that they wait for is taken all the same.
func TestSession_EarlySubmissionsDoNotShutOutTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.HeldCommits = 2
		n := w.start("r1")
		tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
		a := w.agent()
		a.opened()
		errs := make(chan error, 2)
		commitAs := func(n uint32) error {
			_, err := a.Commit(t.Context(), encode(id.Submission{Session: a.ID(), N: n}, false, plain(tp)), time.Time{})
			return err
		}
		for i := uint32(2); i <= 3; i++ {
			go func() { errs <- commitAs(i) }()
			synctest.Wait()
		}
		require.ErrorIs(t, commitAs(4), client.ErrThrottled)
		require.NoError(t, commitAs(1))
		require.NoError(t, <-errs)
		require.NoError(t, <-errs)
		a.leave()
		w.stop(n)
	})
}

// A look-up that would be one subscription too many begins none of its own.
func TestSession_LookupOverTheBoundSubscribesToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.Subscriptions = 1
		n := w.start("r1")
		topic := w.topic(n, "t", 2)
		a := w.agent()
		a.opened()
		var asked []*api.PartitionLookup
		for p := range int32(2) {
			asked = append(asked, &api.PartitionLookup{Topic: topic[:], Partition: p, Subscribe: true})
		}
		_, err := a.Lookup(t.Context(), asked)
		require.ErrorIs(t, err, client.ErrThrottled)
		_, err = a.submit(plain(id.TopicPartition{Topic: topic}))
		require.NoError(t, err)
		_, err = a.Fresh(t.Context())
		require.NoError(t, err)
		a.read(func() { require.Empty(t, a.events, "no notice without an answer before it") })
		_, err = a.Lookup(t.Context(), asked[:1])
		require.NoError(t, err)
		_, err = a.Lookup(t.Context(), asked[:1])
		require.NoError(t, err, "no more than there were")
		a.leave()
		w.stop(n)
	})
}

func TestSession_SilentAgentIsClosedAndComesBackAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
		a := w.agent()
		a.opened()
		_, err := a.submit(plain(tp))
		require.NoError(t, err)
		old := a.ID()

		// The owner closes the session under the agent, as after five silent seconds. A later commit of that session takes no
		// effect. A commit whose answer was lost is still answered by its name.
		_, _, err = n.Owner().Propose(t.Context(), &metadata.CloseSession{Session: old})
		require.NoError(t, err)
		w.waitFor("a new session", func() bool { return a.ID() > old })
		a.read(func() { require.Equal(t, 1, a.closed) })
		_, err = a.Commit(t.Context(), encode(id.Submission{Session: old, N: 2}, false, plain(tp)), time.Time{})
		require.ErrorIs(t, err, client.ErrSessionClosed)
		result, err := a.Commit(t.Context(), encode(id.Submission{Session: old, N: 1}, false, plain(tp)), time.Time{})
		require.NoError(t, err)
		require.Equal(t, int64(0), result.Sections[0].Spans[0].Base)

		// The session of an agent that vanishes is closed a session time-out after its stream broke, though the agent was idle.
		b := w.agent()
		b.opened()
		gone := b.ID()
		b.leave()
		state := func() (closed bool) {
			_, err := n.Owner().Read(func(s *metadata.State) {
				info, _ := s.Session(gone)
				closed = info.Closed
			})
			require.NoError(t, err)
			return closed
		}
		time.Sleep(4 * time.Second)
		require.False(t, state())
		time.Sleep(5 * time.Second)
		require.True(t, state())
		a.leave()
		w.stop(n)
	})
}

func TestSession_NewOwnerGivesEverybodyAFullTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		w.topic(n, "t", 1)
		a := w.agent()
		a.opened()
		gone := a.ID()
		a.leave()
		time.Sleep(3 * time.Second)
		other := w.start("r2")
		w.stop(n)
		w.waitFor("ownership", func() bool { return other.Owner() != nil })
		closed := func() (closed bool) {
			_, err := other.Owner().Read(func(s *metadata.State) {
				info, _ := s.Session(gone)
				closed = info.Closed
			})
			require.NoError(t, err)
			return closed
		}
		time.Sleep(5*time.Second + api.MaxRest - 500*time.Millisecond)
		require.False(t, closed(), "silence under the earlier owner does not count")
		time.Sleep(2 * time.Second)
		require.True(t, closed(), "a session that never came back is closed too")
		w.stop(other)
	})
}

func TestSession_WrongKeyIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		w.topic(n, "t", 1)
		for _, adjust := range []func(*client.Config){
			func(c *client.Config) { c.AgentKey = "another" },
			func(c *client.Config) { c.AgentKey = "" },
			func(c *client.Config) { c.VirtualCluster = "vc2" },
		} {
			a := w.agent(adjust)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			_, err := a.Fresh(ctx)
			cancel()
			require.ErrorIs(t, err, client.ErrUnavailable)
			a.leave()
		}
		w.stop(n)
	})
}

// TestSession_KeyNamesTheVirtualCluster: an agent without the name of a virtual cluster gets the one that its key opens.
func TestSession_KeyNamesTheVirtualCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		a := w.agent(func(c *client.Config) { c.VirtualCluster = "" })
		a.opened()
		a.mu.Lock()
		require.Equal(t, vcName, a.cluster)
		a.mu.Unlock()
		a.leave()
		w.end(n)
	})
}

// TestSession_EndsWithItsKey: the stream of a withdrawn key ends at once, and the agent gets none with it. Other agents keep theirs.
func TestSession_EndsWithItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		a := w.agent()
		a.opened()
		w.openWith("new")
		b := w.agent(func(c *client.Config) { c.AgentKey = "new" })
		b.opened()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := a.Fresh(ctx)
		require.ErrorIs(t, err, client.ErrUnavailable)
		time.Sleep(time.Minute)
		agents := agentsOf(t, n)
		require.Len(t, agents, 2)
		require.Equal(t, session.AgentStopped, agents["agent-1:9092"].State)
		require.Equal(t, session.AgentServes, agents["agent-2:9092"].State)
		w.openWith(agentKey)
		time.Sleep(10 * time.Second)
		_, err = a.Fresh(t.Context())
		require.NoError(t, err, "the key is back")
		a.leave()
		b.leave()
		w.end(n)
	})
}

func TestSession_UnreachableControlPlaneIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
		a := w.agent()
		a.opened()
		w.stop(n)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := a.Commit(ctx, encode(id.Submission{Session: a.ID(), N: 1}, false, plain(tp)), time.Time{})
		require.ErrorIs(t, err, client.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = a.Forward(ctx, client.Forward{})
		require.ErrorIs(t, err, client.ErrUnavailable)
		a.leave()
	})
}

func TestSession_MalformedCommitIsInvalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
		a := w.agent()
		a.opened()
		encoded := encode(id.Submission{Session: a.ID(), N: 1}, false, plain(tp))
		_, err := a.Commit(t.Context(), encoded[:len(encoded)-1], time.Time{})
		require.ErrorIs(t, err, client.ErrInvalid)
		_, err = a.Commit(t.Context(), encode(id.Submission{Session: 77, N: 1}, false, plain(tp)), time.Time{})
		require.ErrorIs(t, err, client.ErrInvalid)
		a.leave()
		w.stop(n)
	})
}

// TestSession_TopicTwiceIsInvalid: the dictionary of a submission, and of a resubmission, names each topic once.
func TestSession_TopicTwiceIsInvalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		one, two := w.topic(n, "one", 2), w.topic(n, "two", 2)
		a := w.agent()
		a.opened()
		idempotent := func(topic id.Topic, partition int32) batch {
			return batch{tp: id.TopicPartition{Topic: topic, Partition: partition}, producer: 7}
		}
		for _, resubmit := range []bool{false, true} {
			encoded := encode(id.Submission{Session: a.ID(), N: 1}, resubmit, idempotent(one, 0), idempotent(two, 1))
			twice := bytes.ReplaceAll(encoded, two[:], one[:])
			require.NotEqual(t, encoded, twice)
			_, err := a.Commit(t.Context(), twice, time.Time{})
			require.ErrorIs(t, err, client.ErrInvalid)
			require.ErrorContains(t, err, one.String())
		}
		_, err := a.Commit(t.Context(), encode(id.Submission{Session: a.ID(), N: 1}, false, idempotent(one, 0), idempotent(two, 1)), time.Time{})
		require.NoError(t, err, "the refused submission has left its number free")
		a.leave()
		w.stop(n)
	})
}
