package session_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
)

// bulky builds answers of the size that a request names. A request of countedKey has its answer counted while it is built, and waits for go on.
type bulky struct {
	spawn session.Spawn
	goOn  chan struct{}
	mu    sync.Mutex
	built int // answers counted whole, and not answered yet
	most  int
}

const (
	uncountedKey int16 = 200
	countedKey   int16 = 201
)

func (b *bulky) Start(ctx context.Context, f *api.Forward, reply func([]byte, error)) {
	var size int
	_, err := fmt.Sscan(string(f.Body), &size)
	if err != nil || f.ApiKey == int32(uncountedKey) {
		reply(make([]byte, size), err)
		return
	}
	b.spawn(func(context.Context) { reply(b.count(session.AnswerOf(ctx), size)) })
}

func (b *bulky) count(answer *session.Answer, size int) ([]byte, error) {
	for n := 0; n < size; n += mib {
		if err := answer.Add(min(mib, size-n)); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	b.built++
	b.most = max(b.most, b.built)
	b.mu.Unlock()
	<-b.goOn
	b.mu.Lock()
	b.built--
	b.mu.Unlock()
	return make([]byte, size), nil
}

// bulkyWorld is a world of one replica, and one agent that has opened.
func bulkyWorld(t *testing.T) (*world, *node, *agent, *bulky) {
	t.Helper()
	w, b := newWorld(t), &bulky{goOn: make(chan struct{})}
	w.answers = session.NewAnswers(0)
	w.forwards = func(_ *owner.Owner, spawn session.Spawn) session.Forwards {
		b.spawn = spawn
		return b
	}
	n := w.start("r1")
	w.waitFor("ownership", func() bool { return n.Owner() != nil })
	a := w.agent()
	a.opened()
	return w, n, a, b
}

// Answers that an agent has not taken yet must not end its stream, however many its clients ask for.
func TestAnswers_LargeOnesCutNoStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n, a, _ := bulkyWorld(t)
		topic := w.topic(n, "t", 1)
		stall := make(chan struct{})
		a.read(func() { a.stall = stall })
		_, _, err := n.Owner().Propose(t.Context(), &metadata.SetConfigs{Resource: metadata.ConfigTopic, Topic: topic, Set: map[string]string{"k": "v"}})
		require.NoError(t, err)
		synctest.Wait()
		var answers []<-chan string
		for connection := range uint64(6) {
			answers = append(answers, a.ask(uncountedKey, connection, fmt.Sprint(20*mib)))
		}
		require.Less(t, 64*mib, w.answers.Bytes(), "more than Limits.OutboxBytes are unsent")
		a.read(func() { a.stall = nil })
		close(stall)
		for _, answer := range answers {
			require.Len(t, <-answer, 20*mib)
		}
		a.read(func() { require.Equal(t, 1, a.welcomes) })
		synctest.Wait()
		require.Zero(t, w.answers.Bytes())
		a.leave()
		w.stop(n)
	})
}

// While one large answer is built, others wait for its place, and a small one does not. Every one is answered in the end.
func TestAnswers_LargeOnesAreBuiltOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n, a, b := bulkyWorld(t)
		var answers []<-chan string
		for connection := range uint64(5) {
			answers = append(answers, a.ask(countedKey, connection, fmt.Sprint(session.MaxAnswerBytes)))
		}
		require.Len(t, <-a.ask(uncountedKey, 6, "1000"), 1000)
		for range answers {
			b.goOn <- struct{}{}
			time.Sleep(time.Second) // sleeps: in the bubble, until one is asked again
		}
		for _, answer := range answers {
			require.Len(t, <-answer, session.MaxAnswerBytes)
		}
		require.Equal(t, 1, b.most)
		_, err := a.Forward(t.Context(), client.Forward{Key: countedKey, Connection: 7, Body: fmt.Append(nil, session.MaxAnswerBytes+1)})
		require.ErrorContains(t, err, "too large")
		synctest.Wait()
		require.Zero(t, w.answers.Bytes())
		a.leave()
		w.stop(n)
	})
}

// Small answers together have a bound as well, and the bytes of one that is not sent are given back.
func TestAnswers_SmallOnesShareABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n, a, b := bulkyWorld(t)
		var answers []<-chan string
		for connection := range uint64(20) {
			answers = append(answers, a.ask(countedKey, connection, fmt.Sprint(mib)))
		}
		require.Equal(t, 16*mib, w.answers.Bytes())
		require.Equal(t, 16, b.most)
		close(b.goOn)
		for _, answer := range answers {
			require.Len(t, <-answer, mib)
		}
		synctest.Wait()
		require.Zero(t, w.answers.Bytes())

		b.goOn = make(chan struct{})
		a.ask(countedKey, 1, fmt.Sprint(2*mib))
		require.NotZero(t, w.answers.Bytes())
		a.leave()
		close(b.goOn)
		synctest.Wait()
		require.Zero(t, w.answers.Bytes(), "the stream ended before the answer")
		w.stop(n)
	})
}
