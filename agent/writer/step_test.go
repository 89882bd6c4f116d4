package writer

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/slab"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore/mem"
)

// closedCommitter answers that the session is closed.
type closedCommitter struct{}

func (closedCommitter) Commit(context.Context, []byte, time.Time) (*commit.Result, error) {
	return nil, client.ErrSessionClosed
}

func (closedCommitter) Abandon(context.Context, id.Submission) (*commit.Result, error) {
	return nil, client.ErrSessionClosed
}

// TestSession_StepLooksAgain: a bundle that is to be sealed while another waits for its PUT to begin is sealed in the same
// step that begins it: nothing may wake the writer before that PUT has ended.
func TestSession_StepLooksAgain(t *testing.T) {
	pool, err := slab.NewPool(slab.Config{Budget: 16 << 20}, nil)
	require.NoError(t, err)
	w, err := New(Config{
		Pool: pool, Bucket: mem.New(), Committer: closedCommitter{}, FlushBytes: 1000, FlushInterval: time.Hour, Linger: time.Hour,
	}, nil)
	require.NoError(t, err)
	w.OnWelcome(&api.Welcome{Session: 1, NextN: 1})
	defer w.stop()
	batch := Batch{Partition: id.TopicPartition{Topic: id.Topic{1}}, Bytes: make([]byte, 900)}
	w.Add(t.Context(), []Batch{batch, batch}) // seals the first by its size
	w.Flush()
	s := w.mu.session
	s.step()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.open != nil {
		t.Error("the second is not sealed")
	}
	require.Empty(t, s.mu.queue)
}
