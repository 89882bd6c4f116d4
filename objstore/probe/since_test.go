package probe_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/probe"
)

// A fault does not begin before a check that succeeded, even if a request from before that check fails later.
func TestWatch_AFaultBeginsAfterTheLastSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := probe.NewWatch(probe.Reach, "10.0.0.1:9000", zap.NewNop())
		bucket := &reading{Bucket: mem.New()}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx, bucket) }()
		<-w.Works()
		time.Sleep(time.Hour) // sleeps: the clock is fake
		began := time.Now()   // of a request that hangs
		time.Sleep(30 * time.Second)
		require.Nil(t, w.Check(ctx))
		success := time.Now()
		time.Sleep(30 * time.Second)
		bucket.errs = slices.Repeat([]error{errHang}, 9)
		w.NoteFailure(began)
		time.Sleep(20 * time.Second)
		fault := w.Check(ctx)
		require.NotNil(t, fault)
		t.Log(fault)
		require.False(t, fault.Since.Before(success), "the fault began %s before the last success", success.Sub(fault.Since))
		cancel()
		require.NoError(t, <-ended)
	})
}
