package session

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
)

// sequenceWorld is one session's sequence over an owner whose log entries hold one command each, and come to the log
// when the test lets them.
type sequenceWorld struct {
	*sequence
	t       *testing.T
	allowed atomic.Uint64 // log entries up to this index pass
}

// all lets every log entry pass.
const all = 1 << 62

func newSequenceWorld(t *testing.T) *sequenceWorld {
	t.Helper()
	w := &sequenceWorld{t: t}
	w.allowed.Store(all)
	log, network, err := memlog.New().Open("a", metalog.Config{})
	require.NoError(t, err)
	network.SetFaults(func(op memlog.Op) memlog.Fault {
		if op.Kind == memlog.OpAppend && op.Index > w.allowed.Load() {
			return memlog.LoseRequest
		}
		return memlog.Pass
	})
	term, err := log.Acquire(t.Context(), metalog.Candidate{Replica: "a"})
	require.NoError(t, err)
	own, err := owner.New(owner.Config{Tenure: term, State: metadata.New(), GroupCommands: 1})
	require.NoError(t, err)
	tenure := newTenure(NewCluster(ClusterConfig{Name: "vc"}), own)
	own.OnApply(tenure.announce)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- own.Run(ctx) }()
	t.Cleanup(func() {
		w.allowed.Store(all)
		cancel()
		require.NoError(t, <-ended)
		tenure.stop()
		require.NoError(t, term.Resign(context.Background()))
	})
	_, _, err = own.Propose(t.Context(), &metadata.OpenSession{Instance: "i"})
	require.NoError(t, err)
	w.sequence = tenure.mu.sessions[1].commits
	return w
}

// settle hands in submission n, one to be abandoned, and returns the channel for its fault, nil once it is settled.
func (w *sequenceWorld) settle(n uint32) <-chan *api.Error { return w.settleUntil(n, 0) }

func (w *sequenceWorld) settleUntil(n uint32, until uint64) <-chan *api.Error {
	fault := make(chan *api.Error, 1)
	command := &metadata.AbandonSubmission{Submission: id.Submission{Session: 1, N: n}}
	w.submit(submission{n: n, command: command, bytes: abandonBytes, until: until}, func(_ *commit.Result, _ uint64, f *api.Error) { fault <- f })
	synctest.Wait()
	return fault
}

// pass lets log entries up to index come, and waits until they were applied.
func (w *sequenceWorld) pass(index uint64) {
	w.allowed.Store(index)
	time.Sleep(time.Second)
	synctest.Wait()
}

// The log, full, refused submission 1; trimmed, it took 2, which is too early. 1 comes again before that is known, and
// is settled after. The order must not wait for 1 once more.
func TestSequence_GoesOnAfterARefusalAmongThoseUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSequenceWorld(t)
		w.sequence.mu.next = 2 // 1 was handed over
		w.pass(1)
		second := w.settle(2)
		first := w.settle(1)
		w.pass(2)
		require.NotNil(t, <-second, "too early")
		w.pass(3)
		require.Nil(t, <-first)
		w.pass(all)
		start := time.Now()
		require.Nil(t, <-w.settle(2))
		require.Less(t, time.Since(start), time.Second)
		require.Nil(t, <-w.settle(3))
	})
}

// The owner refuses a submission before the log, so next stays. The submission comes again, and the one behind it follows.
func TestSequence_ComesAgainAfterTheOwnerRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSequenceWorld(t)
		second := w.settle(2)
		refused := make(chan *api.Error, 1)
		tooLarge := &metadata.CommitBundle{Encoded: make([]byte, 16<<20)} // with its kind above owner.Config.CommandBytes
		w.submit(submission{n: 1, command: tooLarge}, func(_ *commit.Result, _ uint64, f *api.Error) { refused <- f })
		synctest.Wait()
		require.Equal(t, api.Error_INVALID, (<-refused).GetCode())
		require.Empty(t, second, "it waits for 1 to come again")
		require.Nil(t, <-w.settle(1))
		require.Nil(t, <-second)
		require.Nil(t, <-w.settle(3))
	})
}

// The next owner answers the submissions that the state has settled, without the log, and takes the one behind them at once.
func TestSequence_OfTheNextOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSequenceWorld(t)
		require.Nil(t, <-w.settle(1))
		require.Nil(t, <-w.settle(2))

		own := w.sequence.t.owner
		next := newTenure(NewCluster(ClusterConfig{Name: "vc"}), own)
		t.Cleanup(next.stop)
		before, err := own.Read(next.begin)
		require.NoError(t, err)
		w.sequence = next.mu.sessions[1].commits
		require.Nil(t, <-w.settle(1))
		require.Nil(t, <-w.settle(2))
		after, err := own.Read(func(*metadata.State) {})
		require.NoError(t, err)
		require.Equal(t, before, after)
		start := time.Now()
		require.Nil(t, <-w.settle(3))
		require.Less(t, time.Since(start), time.Second)
	})
}

// What is late is refused while it was not handed to the log, and only then: whoever hears of it may hand in something else
// under the same name. Those behind it wait for that.
func TestSequence_Late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSequenceWorld(t)
		now := w.sequence.t.steady()
		early := w.settleUntil(2, now+500)
		held := w.settleUntil(2, now+1500) // asked for once more
		third := w.settle(3)
		time.Sleep(time.Second)
		require.Equal(t, api.Error_LATE, (<-w.settleUntil(1, now+500)).GetCode())
		require.Nil(t, <-w.settleUntil(1, now+1500))
		require.Nil(t, <-early, "the later time counts: both were given for the same")
		require.Nil(t, <-held)
		require.Nil(t, <-third)
		require.Nil(t, <-w.settleUntil(2, 1), "settled long ago")

		index, err := w.sequence.t.owner.Read(func(*metadata.State) {})
		require.NoError(t, err)
		w.pass(index)
		fourth := w.settleUntil(4, w.sequence.t.steady()+500)
		time.Sleep(time.Second)
		require.Equal(t, api.Error_UNAVAILABLE, (<-w.settleUntil(4, 1)).GetCode(), "it is on its way through the log")
		w.pass(all)
		require.Nil(t, <-fourth)
		require.Nil(t, <-w.settleUntil(4, 1))
	})
}

// What came by an earlier stream and is looked at once its agent knows that it is late is not taken: the agent may hand in
// something else under the same name.
func TestSequence_LateByAnEarlierStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSequenceWorld(t)
		by := func(stream, until uint64) <-chan *api.Error {
			fault := make(chan *api.Error, 1)
			command := &metadata.AbandonSubmission{Submission: id.Submission{Session: 1, N: 1}}
			w.submit(submission{n: 1, command: command, bytes: abandonBytes, until: until, stream: stream},
				func(_ *commit.Result, _ uint64, f *api.Error) { fault <- f })
			synctest.Wait()
			return fault
		}
		now := w.sequence.t.steady()
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, api.Error_LATE, (<-by(2, now+50)).GetCode(), "the agent knows less of the clock by its new stream")
		require.Equal(t, api.Error_UNAVAILABLE, (<-by(1, now+500)).GetCode())
		require.Nil(t, <-by(2, 0))
	})
}

// What comes when the owner has ended, and its stream has not yet, is answered like anything else.
func TestAgent_AfterTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _, err := memlog.New().Open("a", metalog.Config{})
		require.NoError(t, err)
		term, err := log.Acquire(t.Context(), metalog.Candidate{Replica: "a"})
		require.NoError(t, err)
		own, err := owner.New(owner.Config{Tenure: term, State: metadata.New()})
		require.NoError(t, err)
		tenure := newTenure(NewCluster(ClusterConfig{Name: "vc"}), own)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, own.Run(ctx))
		require.NoError(t, term.Resign(t.Context()))

		a := tenure.newAgent(1, func(error) {})
		a.lookup(&api.Lookup{Request: 7, Partitions: []*api.PartitionLookup{{Subscribe: true}}})
		items, _ := a.out.take()
		require.Len(t, items, 1)
		require.Equal(t, uint64(7), items[0].GetLookup().Request)
		require.Equal(t, api.Error_UNAVAILABLE, items[0].GetLookup().Error.GetCode())

		var b commit.Builder
		b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: 1}, Bytes: 100, Resubmit: true})
		b.Section(commit.Section{})
		b.Batch(commit.Batch{Records: 1, Bytes: 100, ProducerID: 5, BaseSequence: 9})
		a.commit(&api.Commit{Request: 8, Encoded: b.AppendTo(nil)})
		items, _ = a.out.take()
		require.Len(t, items, 1, "a resubmission")
		require.Equal(t, api.Error_UNAVAILABLE, items[0].GetCommit().Error.GetCode())
		tenure.stop()
	})
}
