package owner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is one owner over a log in memory, and a second replica's view of that log.
type fixture struct {
	*owner.Owner
	store  *memlog.Store
	net    *memlog.Replica
	log    metalog.Log // of a follower
	tenure metalog.Tenure
	stop   context.CancelFunc
}

// start runs an owner until the test stops it; bodies run in a synctest bubble.
func start(t *testing.T, adjust func(*owner.Config)) *fixture {
	t.Helper()
	f := &fixture{store: memlog.New()}
	l, net, err := f.store.Open("a", metalog.Config{})
	require.NoError(t, err)
	f.net = net
	f.log, _, err = f.store.Open("b", metalog.Config{})
	require.NoError(t, err)
	f.tenure, err = l.Acquire(t.Context(), metalog.Candidate{Replica: "a"})
	require.NoError(t, err)
	cfg := owner.Config{Tenure: f.tenure, State: metadata.New()}
	if adjust != nil {
		adjust(&cfg)
	}
	f.Owner, err = owner.New(cfg)
	require.NoError(t, err)
	return f
}

// run starts the owner; end waits for it and gives the tenure back.
func (f *fixture) run(t *testing.T) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	return func() error {
		cancel()
		err := <-ended
		f.net.SetFaults(nil)
		_ = f.tenure.Resign(context.Background())
		return err
	}
}

func topic(n int) *metadata.CreateTopic {
	return &metadata.CreateTopic{ID: id.Topic{byte(n), byte(n >> 8), 1}, Name: fmt.Sprintf("topic-%d", n), Partitions: 1}
}

// replay gives the state that a follower of the log has.
func replay(t *testing.T, l metalog.Log) *metadata.State {
	t.Helper()
	s, asm := metadata.New(), metalog.NewAssembler(0)
	for {
		entries, tail, err := l.Read(t.Context(), asm.Next(), 1<<20)
		require.NoError(t, err)
		for _, e := range entries {
			p, done, err := asm.Add(e)
			require.NoError(t, err)
			if done {
				b, err := metadata.ParseBatch(p)
				require.NoError(t, err)
				s.Apply(e.Index, b, nil, nil)
			}
		}
		if asm.Next() > tail {
			return s
		}
	}
}

func names(s *metadata.State) []string {
	var all []string
	for topic := range s.Topics() {
		all = append(all, topic.Name)
	}
	return all
}

func TestOwner_AnswersWhatIsDurableAndApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		var seen []uint64
		f.OnApply(func(s *metadata.State, index uint64, fx *metadata.Effects) {
			require.Equal(t, index, s.Index())
			if len(fx.Topics) > 0 {
				seen = append(seen, index)
			}
		})
		end := f.run(t)
		for i := 1; i <= 3; i++ {
			result, index, err := f.Propose(t.Context(), topic(i))
			require.NoError(t, err)
			require.NoError(t, result.Err)
			require.EqualValues(t, i, index)
			require.Len(t, seen, i, "hooks run before the answer")
		}
		result, _, err := f.Propose(t.Context(), &metadata.DeleteTopic{ID: id.Topic{9}})
		require.NoError(t, err)
		require.ErrorIs(t, result.Err, metadata.ErrUnknownTopic)
		var hash uint64
		index, err := f.Read(func(s *metadata.State) { hash = s.Snapshot().Hash() })
		require.NoError(t, err)
		require.EqualValues(t, 4, index)
		require.Equal(t, replay(t, f.log).Snapshot().Hash(), hash, "followers get the same state")
		require.NoError(t, end())
	})
}

// While one append is in flight, everything else that comes is gathered into the next one.
func TestOwner_GathersWhileOneAppendIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		end := f.run(t)
		f.net.Stop()
		var proposals []*owner.Proposal
		for i := range 100 {
			p, err := f.Enqueue(t.Context(), topic(i))
			require.NoError(t, err)
			proposals = append(proposals, p)
			synctest.Wait()
		}
		f.net.Release()
		for i, p := range proposals {
			_, index, err := p.Wait(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, min(i, 1)+1, index)
		}
		require.NoError(t, end())
	})
}

func TestOwner_CommandsKeepTheOrderOfEnqueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, func(c *owner.Config) { c.GroupCommands = 3 })
		end := f.run(t)
		var last *owner.Proposal
		for i := range 50 {
			var err error
			last, err = f.Enqueue(t.Context(), &metadata.SetConfigs{
				Resource: metadata.ConfigBroker, Set: map[string]string{"n": fmt.Sprint(i)},
			})
			require.NoError(t, err)
		}
		_, index, err := last.Wait(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, index, uint64(17))
		require.Equal(t, "49", replay(t, f.log).Configs(metadata.ConfigBroker, "")["n"])
		require.NoError(t, end())
	})
}

func TestOwner_LargeCommandSpansEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		end := f.run(t)
		value := strings.Repeat("x", 1<<20)
		_, index, err := f.Propose(t.Context(), &metadata.SetConfigs{
			Resource: metadata.ConfigBroker, Set: map[string]string{"large": value},
		})
		require.NoError(t, err)
		require.EqualValues(t, 5, index, "1 MiB and a little takes five entries of 256 KiB")
		_, index, err = f.Propose(t.Context(), topic(1))
		require.NoError(t, err)
		require.EqualValues(t, 6, index)
		require.Equal(t, value, replay(t, f.log).Configs(metadata.ConfigBroker, "")["large"])

		_, _, err = f.Propose(t.Context(), &metadata.SetConfigs{Set: map[string]string{"a": strings.Repeat("x", 17<<20)}})
		require.ErrorIs(t, err, owner.ErrTooLarge)
		require.NoError(t, end())
	})
}

// The owner is cut off with one group in flight and one behind it. The first one's outcome is unknown, whether or not
// it is in the log; the second one never had an effect; nothing of either is applied or shown.
func TestOwner_EndsWithAnUnresolvedAppend(t *testing.T) {
	for name, fault := range map[string]memlog.Fault{"in the log": memlog.LoseAnswer, "not in the log": memlog.LoseRequest} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, nil)
				end := f.run(t)
				lost := false
				f.net.SetFaults(func(op memlog.Op) memlog.Fault {
					if op.Kind == memlog.OpAppend && !lost {
						lost = true
						return fault
					}
					return memlog.Hang
				})
				inFlight, err := f.Enqueue(t.Context(), topic(1))
				require.NoError(t, err)
				synctest.Wait()
				behind, err := f.Enqueue(t.Context(), topic(2))
				require.NoError(t, err)

				_, _, err = inFlight.Wait(t.Context())
				var unknown *owner.OutcomeUnknownError
				require.ErrorAs(t, err, &unknown)
				require.ErrorIs(t, err, owner.ErrNotOwner)
				_, _, err = behind.Wait(t.Context())
				require.ErrorIs(t, err, owner.ErrNotOwner)
				require.False(t, errors.As(err, &unknown), "no effect, and known to have none")
				<-f.Done()
				require.ErrorIs(t, f.Err(), metalog.ErrFenced)
				_, err = f.Read(func(s *metadata.State) { require.Empty(t, names(s)) })
				require.ErrorIs(t, err, owner.ErrNotOwner)
				_, _, err = f.Propose(t.Context(), topic(3))
				require.ErrorIs(t, err, owner.ErrNotOwner)

				var want []string
				if fault == memlog.LoseAnswer {
					want = []string{"topic-1"}
				}
				require.Equal(t, want, names(replay(t, f.log)))
				require.ErrorIs(t, end(), metalog.ErrFenced)
			})
		})
	}
}

func TestOwner_RefusesReadsOnceTheFenceHasFallen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		end := f.run(t)
		_, _, err := f.Propose(t.Context(), topic(1))
		require.NoError(t, err)
		f.net.CutOff()
		time.Sleep(2 * time.Second)
		_, err = f.Read(func(*metadata.State) {})
		require.NoError(t, err, "the lease still holds")
		time.Sleep(1600 * time.Millisecond)
		_, err = f.Read(func(*metadata.State) {})
		require.ErrorIs(t, err, owner.ErrNotOwner)
		require.ErrorIs(t, end(), metalog.ErrFenced)
	})
}

// pausingTenure is stopped for a while whenever the fence is looked at after a read.
type pausingTenure struct {
	metalog.Tenure
	pause atomic.Bool
}

func (p *pausingTenure) Valid() bool {
	if p.pause.Load() {
		time.Sleep(4 * time.Second)
	}
	return p.Tenure.Valid()
}

// A reader that was stopped between reading and answering finds the fence fallen.
func TestOwner_ChecksTheFenceAfterReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenure := &pausingTenure{}
		f := start(t, func(c *owner.Config) {
			tenure.Tenure = c.Tenure
			c.Tenure = tenure
		})
		end := f.run(t)
		f.net.CutOff()
		tenure.pause.Store(true)
		read := false
		_, err := f.Read(func(*metadata.State) { read = true })
		require.True(t, read)
		require.ErrorIs(t, err, owner.ErrNotOwner)
		require.ErrorIs(t, end(), metalog.ErrFenced)
	})
}

func TestOwner_FinishesTheAppendInFlightWhenStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		end := f.run(t)
		f.net.Stop()
		inFlight, err := f.Enqueue(t.Context(), topic(1))
		require.NoError(t, err)
		synctest.Wait()
		behind, err := f.Enqueue(t.Context(), topic(2))
		require.NoError(t, err)
		f.stop()
		synctest.Wait()
		f.net.Release()
		_, index, err := inFlight.Wait(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, index)
		_, _, err = behind.Wait(t.Context())
		require.ErrorIs(t, err, owner.ErrNotOwner)
		require.NoError(t, end())
		require.NoError(t, f.Err())
	})
}

func TestOwner_StopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		end := f.run(t)
		f.net.CutOff()
		p, err := f.Enqueue(t.Context(), topic(1))
		require.NoError(t, err)
		synctest.Wait()
		begin := time.Now()
		require.Error(t, end())
		require.LessOrEqual(t, time.Since(begin), 2*time.Second)
		_, _, err = p.Wait(t.Context())
		var unknown *owner.OutcomeUnknownError
		require.ErrorAs(t, err, &unknown)
	})
}

func TestProposal_IsWithdrawnFromTheQueueOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		end := f.run(t)
		f.net.Stop()
		inFlight, err := f.Enqueue(t.Context(), topic(1))
		require.NoError(t, err)
		synctest.Wait()
		behind, err := f.Enqueue(t.Context(), topic(2))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err = behind.Wait(ctx)
		var unknown *owner.OutcomeUnknownError
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, errors.As(err, &unknown))
		_, _, err = inFlight.Wait(ctx)
		require.ErrorAs(t, err, &unknown)
		f.net.Release()
		_, _, err = f.Propose(t.Context(), topic(3))
		require.NoError(t, err)
		require.Equal(t, []string{"topic-1", "topic-3"}, names(replay(t, f.log)))
		require.NoError(t, end())
	})
}

func TestOwner_QueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, func(c *owner.Config) { c.CommandBytes, c.QueueBytes = 1000, 2000 })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var n int
		for ; ; n++ {
			if _, err := f.Enqueue(ctx, topic(n)); err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				break
			}
		}
		require.Equal(t, 3, n)
		end := f.run(t)
		_, _, err := f.Propose(t.Context(), topic(9))
		require.NoError(t, err)
		require.NoError(t, end())
	})
}

// A run waits for space once, whoever waits behind it. Its bounds leave the rest to the next: the queue's own, or a command
// that is refused.
func TestOwner_TakesARunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, func(c *owner.Config) { c.CommandBytes, c.QueueBytes = 1000, 8000 })
		ended, end := context.WithCancel(t.Context())
		end()
		fill := func() (n int) {
			for _, err := f.Enqueue(ended, topic(1000)); err == nil; _, err = f.Enqueue(ended, topic(1000)) {
				n++
			}
			return n
		}
		room := fill()
		var cmds []metadata.Command
		for n := range 100 {
			cmds = append(cmds, &metadata.SetConfigs{Resource: metadata.ConfigBroker, Set: map[string]string{"n": fmt.Sprint(n)}})
		}
		_, err := f.EnqueueRun(ended, cmds)
		require.ErrorIs(t, err, context.Canceled)
		var run []*owner.Proposal
		var waiting sync.WaitGroup
		waiting.Go(func() { run, err = f.EnqueueRun(t.Context(), cmds) })
		synctest.Wait()
		for range 10 {
			waiting.Go(func() { _, _, _ = f.Propose(t.Context(), topic(2000)) })
		}
		stop := f.run(t)
		waiting.Wait()
		require.NoError(t, err)
		require.Greater(t, len(run), 10)
		require.LessOrEqual(t, len(run), room+1, "as many as the queue holds")
		for _, p := range run {
			result, _, err := p.Wait(t.Context())
			require.NoError(t, err)
			require.NoError(t, result.Err)
		}
		require.Equal(t, fmt.Sprint(len(run)-1), replay(t, f.log).Configs(metadata.ConfigBroker, "")["n"], "in their order")

		huge := &metadata.SetConfigs{Set: map[string]string{"a": strings.Repeat("x", 2000)}}
		run, err = f.EnqueueRun(t.Context(), []metadata.Command{topic(200), huge, topic(201)})
		require.NoError(t, err)
		require.Len(t, run, 1)
		_, err = f.EnqueueRun(t.Context(), []metadata.Command{huge, topic(201)})
		require.ErrorIs(t, err, owner.ErrTooLarge)
		require.NoError(t, stop())
		_, err = f.EnqueueRun(t.Context(), cmds)
		require.ErrorIs(t, err, owner.ErrNotOwner)
	})
}

// Above the soft limit groups are delayed, at the hard limit commands are refused, except the marks without which no
// snapshot could begin; after trimming everything goes on.
func TestOwner_KeepsTheLogBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, func(c *owner.Config) { c.SoftLogBytes, c.HardLogBytes, c.MaxDelay = 1000, 2000, time.Second })
		end := f.run(t)
		propose := func() (time.Duration, error) {
			begin := time.Now()
			_, _, err := f.Propose(t.Context(), &metadata.SetConfigs{
				Resource: metadata.ConfigBroker, Set: map[string]string{"k": strings.Repeat("v", 200)},
			})
			return time.Since(begin), err
		}
		var last time.Duration
		for f.tenure.Bytes() < 2000 {
			before := f.tenure.Bytes()
			took, err := propose()
			require.NoError(t, err)
			require.GreaterOrEqual(t, took, last, "delays grow")
			require.Equal(t, before > 1000, took > 0)
			last = took
		}
		_, err := propose()
		require.ErrorIs(t, err, metalog.ErrLogFull)
		_, index, err := f.Propose(t.Context(), &metadata.CheckHash{})
		require.NoError(t, err)
		require.NoError(t, f.tenure.Trim(t.Context(), index))
		took, err := propose()
		require.NoError(t, err)
		require.Zero(t, took)
		require.NoError(t, end())
	})
}

// TestOwner_KeepsToTheRoomOfTheLog: less room lowers both limits at once. Without room all but marks are refused. A log that is short enough for
// the room sees no delay.
func TestOwner_KeepsToTheRoomOfTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := 1.0
		f := start(t, func(c *owner.Config) {
			c.SoftLogBytes, c.HardLogBytes, c.MaxDelay = 10_000, 20_000, time.Second
			c.LogRoom = func() float64 { return room }
		})
		end := f.run(t)
		propose := func(log float64) (time.Duration, error) { // with a room in which the log has a share of its hard limit
			synctest.Wait()
			room = float64(f.tenure.Bytes()) / 20_000 / log
			begin := time.Now()
			_, _, err := f.Propose(t.Context(), &metadata.SetConfigs{
				Resource: metadata.ConfigBroker, Set: map[string]string{"k": strings.Repeat("v", 200)},
			})
			return time.Since(begin), err
		}
		f.mustPropose(t, topic(1), new([]int64))
		for _, c := range []struct {
			log   float64
			delay time.Duration
		}{{0.4, 0}, {0.75, time.Second / 2}, {0.4, 0}} {
			took, err := propose(c.log)
			require.NoError(t, err)
			require.InDelta(t, c.delay, took, float64(20*time.Millisecond), "a log of %v of its hard limit", c.log)
		}
		_, err := propose(1.1)
		require.ErrorIs(t, err, metalog.ErrLogFull)
		room = 0
		_, _, err = f.Propose(t.Context(), topic(2))
		require.ErrorIs(t, err, metalog.ErrLogFull)
		_, index, err := f.Propose(t.Context(), &metadata.CheckHash{})
		require.NoError(t, err)
		require.NoError(t, f.tenure.Trim(t.Context(), index))
		_, _, err = f.Propose(t.Context(), topic(2))
		require.ErrorIs(t, err, metalog.ErrLogFull, "an empty log has no room either")
		room = 1
		f.mustPropose(t, topic(2), new([]int64))
		require.NoError(t, end())
	})
}

// TestOwner_ReservesRoomForEachGroup: a group without room is refused except for marks. Each reservation ends once, after the append or when all
// proposals of the group are refused.
func TestOwner_ReservesRoomForEachGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, overhead = 10_000, 100
		var taken, given, appending atomic.Int64
		f := start(t, func(c *owner.Config) {
			c.SoftLogBytes, c.HardLogBytes, c.MaxDelay, c.MaxWait = 1, 1<<20, time.Hour, time.Nanosecond
			c.ReserveRoom = func(bytes int64) (func(), bool) {
				if taken.Load()+bytes > limit {
					return nil, false
				}
				taken.Add(bytes)
				appending.Add(1)
				return func() {
					given.Add(bytes)
					appending.Add(-1)
				}, true
			}
		})
		end := f.run(t)
		propose := func(bytes int) error {
			_, _, err := f.Propose(t.Context(), &metadata.SetConfigs{Resource: metadata.ConfigBroker, Set: map[string]string{"k": strings.Repeat("v", bytes)}})
			return err
		}
		require.ErrorIs(t, propose(limit), metalog.ErrLogFull)
		require.Zero(t, f.tenure.Bytes())
		f.net.Stop()
		answered := make(chan error, 1)
		go func() { answered <- propose(limit / 2) }()
		synctest.Wait()
		require.EqualValues(t, 1, appending.Load())
		require.Zero(t, given.Load())
		f.net.Release()
		require.NoError(t, <-answered)
		require.InDelta(t, limit/2, f.tenure.Bytes(), overhead)
		require.Equal(t, taken.Load(), given.Load())
		require.ErrorIs(t, propose(overhead), metalog.ErrLogFull, "it waits longer than it may")
		require.Zero(t, appending.Load())
		require.Equal(t, taken.Load(), given.Load())
		taken.Store(limit)
		_, _, err := f.Propose(t.Context(), &metadata.CheckHash{})
		require.NoError(t, err)
		require.Zero(t, appending.Load())
		require.NoError(t, end())
	})
}

// TestOwner_RoomForTheFirstCommandsOfAGroup: a group with a large command has no room. The small commands before it are taken, the rest is refused.
func TestOwner_RoomForTheFirstCommandsOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []int64
		reserved := 0
		f := start(t, func(c *owner.Config) {
			c.ReserveRoom = func(bytes int64) (func(), bool) {
				if asked = append(asked, bytes); bytes > owner.SmallGroupBytes {
					return nil, false
				}
				reserved++
				return func() { reserved-- }, true
			}
		})
		var cmds []metadata.Command
		for _, bytes := range []int{20 << 10, 20 << 10, 50 << 10, 100} {
			cmds = append(cmds, &metadata.SetConfigs{Resource: metadata.ConfigBroker, Set: map[string]string{"k": strings.Repeat("v", bytes)}})
		}
		run, err := f.EnqueueRun(t.Context(), cmds)
		require.NoError(t, err)
		require.Len(t, run, len(cmds))
		end := f.run(t)
		for i, p := range run {
			_, _, err := p.Wait(t.Context())
			if i < 2 {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, metalog.ErrLogFull, "command %d", i)
			}
		}
		_, _, err = f.Propose(t.Context(), cmds[3])
		require.NoError(t, err)
		_, _, err = f.Propose(t.Context(), &metadata.SetConfigs{Resource: metadata.ConfigBroker, Set: map[string]string{"k": strings.Repeat("v", 70<<10)}})
		require.ErrorIs(t, err, metalog.ErrLogFull)
		require.NoError(t, end())
		require.Len(t, asked, 4)
		require.Zero(t, reserved)
	})
}

// While commits are delayed, the mark of a snapshot goes ahead of all waiting commands, including commands that wait for space in
// the queue. Only a snapshot lets the log be trimmed.
func TestOwner_ReservedCommandsGoAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, func(c *owner.Config) {
			c.SoftLogBytes, c.HardLogBytes, c.MaxDelay, c.MaxWait = 1, 1<<20, time.Hour, 1000*time.Hour
			c.GroupBytes, c.CommandBytes, c.QueueBytes = 300, 300, 3000
		})
		end := f.run(t)
		var waiting sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for range 20 {
			waiting.Go(func() {
				_, _, err := f.Propose(ctx, &metadata.SetConfigs{
					Resource: metadata.ConfigBroker, Set: map[string]string{"k": strings.Repeat("v", 200)},
				})
				if err != nil {
					assert.ErrorIs(t, err, context.Canceled)
				}
			})
		}
		synctest.Wait() // the first is in the log, the next held back, some in the queue, some before it
		_, index, err := f.Propose(t.Context(), &metadata.CheckHash{})
		require.NoError(t, err)
		require.EqualValues(t, 2, index)
		cancel()
		waiting.Wait()
		require.NoError(t, end())
	})
}

func TestOwner_TimeNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := []int64{5000, 4000, 6000}
		f := start(t, func(c *owner.Config) {
			c.Now = func() time.Time {
				now := times[0]
				times = times[1:]
				return time.UnixMilli(now)
			}
		})
		end := f.run(t)
		var got []int64
		f.mustPropose(t, topic(1), &got)
		f.mustPropose(t, topic(2), &got)
		f.mustPropose(t, topic(3), &got)
		require.Equal(t, []int64{5000, 5000, 6000}, got)
		require.EqualValues(t, 6000, replay(t, f.log).Now())
		require.NoError(t, end())
	})
}

func (f *fixture) mustPropose(t *testing.T, cmd metadata.Command, times *[]int64) {
	t.Helper()
	_, _, err := f.Propose(t.Context(), cmd)
	require.NoError(t, err)
	_, err = f.Read(func(s *metadata.State) { *times = append(*times, s.Now()) })
	require.NoError(t, err)
}

func TestOwner_HandsHashCommandsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var marked uint64
		var checked []metadata.CheckHash
		f := start(t, func(c *owner.Config) {
			c.First = []metadata.Command{&metadata.Bootstrap{ClusterID: "first"}}
			c.Marked = func(index uint64, s *metadata.State) {
				marked = index
				require.Equal(t, "first", s.ClusterID())
			}
			c.Checked = func(h metadata.CheckHash) { checked = append(checked, h) }
		})
		end := f.run(t)
		_, index, err := f.Propose(t.Context(), &metadata.CheckHash{})
		require.NoError(t, err)
		require.Equal(t, index, marked)
		_, _, err = f.Propose(t.Context(), &metadata.CheckHash{Index: index, Hash: 7})
		require.NoError(t, err)
		require.Equal(t, []metadata.CheckHash{{Index: index, Hash: 7}}, checked)
		require.NoError(t, end())
	})
}

// An owner can begin with a full log, and first commands that do not fit are dropped.
func TestOwner_BeginsWithAFullLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		_, err := f.tenure.Append(t.Context(), 1, metadata.AppendBatch(nil, &metadata.Batch{}))
		require.NoError(t, err)
		require.NoError(t, f.tenure.Resign(t.Context()))
		l, _, err := f.store.Open("a", metalog.Config{})
		require.NoError(t, err)
		f.tenure, err = l.Acquire(t.Context(), metalog.Candidate{Replica: "a"})
		require.NoError(t, err)
		s := replay(t, f.log)
		f.Owner, err = owner.New(owner.Config{
			Tenure: f.tenure, State: s, SoftLogBytes: 1, HardLogBytes: 2,
			First: []metadata.Command{&metadata.RaiseVersion{Version: 1}},
		})
		require.NoError(t, err)
		end := f.run(t)
		_, index, err := f.Propose(t.Context(), &metadata.CheckHash{})
		require.NoError(t, err)
		require.EqualValues(t, 2, index)
		require.NoError(t, end())
	})
}

// While groups are delayed for the log budget, a command that would wait longer than clients do is refused as by a full
// log. Commands in the queue do not wait longer either, however the delay grows.
func TestOwner_BoundsTheWaitForTheLogBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10 * time.Second
		f := start(t, func(c *owner.Config) {
			c.SoftLogBytes, c.HardLogBytes, c.MaxDelay = 1, 100_000, 100*time.Second
			c.GroupBytes, c.CommandBytes = 300, 300
		})
		end := f.run(t)
		var mu sync.Mutex
		var waits []time.Duration
		refused := 0
		var waiting sync.WaitGroup
		for range 200 {
			waiting.Go(func() {
				began := time.Now()
				_, _, err := f.Propose(t.Context(), &metadata.SetConfigs{
					Resource: metadata.ConfigBroker, Set: map[string]string{"k": strings.Repeat("v", 200)},
				})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					assert.ErrorIs(t, err, metalog.ErrLogFull)
					refused++
				}
				waits = append(waits, time.Since(began))
			})
			synctest.Wait()
		}
		waiting.Wait()
		require.Positive(t, refused)
		require.Less(t, refused, 200, "some are taken")
		require.LessOrEqual(t, slices.Max(waits), limit+100*time.Second/4, "the last delay, and no queue behind it")
		require.NoError(t, end())
	})
}

// A frozen state stays as it was while commands are applied.
func TestOwner_FreezesTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		end := f.run(t)
		set := func(value string) {
			_, _, err := f.Propose(t.Context(), &metadata.SetConfigs{Resource: metadata.ConfigBroker, Set: map[string]string{"k": value}})
			require.NoError(t, err)
		}
		set("1")
		var seen uint64
		frozen, err := f.Freeze(func(s *metadata.State) { seen = s.Index() })
		require.NoError(t, err)
		require.Equal(t, seen, frozen.Index())
		_, err = f.ReadFrozen(func(s *metadata.State) {
			set("2") // no lock is held
			require.Equal(t, "1", s.Configs(metadata.ConfigBroker, "")["k"])
		})
		require.NoError(t, err)
		require.Equal(t, "1", frozen.Configs(metadata.ConfigBroker, "")["k"])
		require.NoError(t, end())
		_, err = f.Freeze(nil)
		require.ErrorIs(t, err, owner.ErrNotOwner)
	})
}
