package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
)

// sentItems is a stream that only sends.
type sentItems struct {
	rpcStream
	sent [][]*api.OwnerItem
}

func (s *sentItems) Send(m *api.ToAgent) error {
	s.sent = append(s.sent, m.Items)
	return nil
}

// TestAgent_AnswersIdleAgentsAtOnce: handle sends an idle agent its stamp before it returns, behind earlier items of the outbox. It leaves to the sender
// the stamps of other agents, large items, and all items while the sender is sending.
func TestAgent_AnswersIdleAgentsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _, err := memlog.New().Open("a", metalog.Config{})
		require.NoError(t, err)
		term, err := log.Acquire(t.Context(), metalog.Candidate{Replica: "a"})
		require.NoError(t, err)
		own, err := owner.New(owner.Config{Tenure: term, State: metadata.New()})
		require.NoError(t, err)
		tenure := newTenure(NewCluster(ClusterConfig{Name: "vc"}), own)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- own.Run(ctx) }()
		synctest.Wait()

		a, token := tenure.newAgent(1, func(error) {}), uint64(0)
		handle := func(next time.Duration) *sentItems {
			token++
			s := &sentItems{}
			a.handle(ctx, s, []*api.AgentItem{{Item: &api.AgentItem_Probe{Probe: &api.Probe{Token: token, NextMs: uint32(next.Milliseconds())}}}})
			return s
		}
		left := func() (items []*api.OwnerItem) {
			require.Len(t, a.out.signal, 1, "the sender is woken")
			<-a.out.signal
			items, _ = a.out.take()
			return items
		}

		s := handle(maxRest)
		require.Len(t, s.sent, 1)
		require.Equal(t, token, s.sent[0][0].GetStamp().Token)
		require.Empty(t, a.out.signal)

		before := &api.OwnerItem{Item: &api.OwnerItem_RecallAnswers{RecallAnswers: &api.RecallAnswers{}}}
		a.out.push(before)
		s = handle(maxRest)
		require.Len(t, s.sent, 1)
		require.Len(t, s.sent[0], 2)
		require.Same(t, before, s.sent[0][0])
		<-a.out.signal // of before

		require.Empty(t, handle(toldRest).sent)
		require.Equal(t, token, left()[0].GetStamp().Token)

		a.sending.Lock()
		require.Empty(t, handle(maxRest).sent)
		a.sending.Unlock()
		require.Equal(t, token, left()[0].GetStamp().Token)

		large := &api.OwnerItem{Item: &api.OwnerItem_Forward{Forward: &api.ForwardAnswer{Body: make([]byte, smallMessage)}}}
		a.out.push(large)
		require.Empty(t, handle(maxRest).sent)
		require.Same(t, large, left()[0])

		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, term.Resign(t.Context()))
		tenure.stop()
	})
}
