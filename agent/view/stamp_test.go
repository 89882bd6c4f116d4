package view_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/view"
)

// TestAskStamp_TooLate: nobody is asked for a request whose time is over.
func TestAskStamp_TooLate(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	s := view.AskStamp(ctx, nil)
	<-s.Done()
	require.True(t, s.Missed())
	require.Zero(t, s.Index())
}
