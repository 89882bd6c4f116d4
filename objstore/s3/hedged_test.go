package s3_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/durable"
	"github.com/freshet-io/freshet/objstore/hedge"
	"github.com/freshet-io/freshet/objstore/meter"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

// TestBucket_HedgedPutsWithPoisonedBuffers sends nearly every put twice, so that losers are cancelled in the middle of
// their upload, and overwrites the buffers the moment they are released. Every object must have its own bytes.
func TestBucket_HedgedPutsWithPoisonedBuffers(t *testing.T) {
	server := testservers.StartS3(t, "bucket")
	metered := meter.New(open(t, server.URL("bucket", "")), nil)
	hedged, err := hedge.New(metered, hedge.Config{
		Quantile: 0.01, MaxShare: 1, Burst: 1000, MinSamples: 1, MinDelay: 1,
	}, nil)
	require.NoError(t, err)
	const puts, size = 60, 1 << 20
	poison := bytes.Repeat([]byte{0xdb}, size)
	content := func(i int) []byte { return objstoretest.Bytes(uint64(i), size) }

	var released atomic.Int32
	var group errgroup.Group
	group.SetLimit(8)
	for i := range puts {
		group.Go(func() error {
			data := content(i)
			body := objstore.NewBody(data[:100], data[100:size/2], data[size/2:])
			free := make(chan struct{})
			err := durable.Policy{}.Put(t.Context(), hedged, fmt.Sprintf("k/%d", i), body, func() {
				copy(data, poison)
				released.Add(1)
				close(free)
			})
			<-free
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.EqualValues(t, puts, released.Load())
	requests := metered.Counts()[objstore.OpPut].Requests
	require.Greater(t, requests, int64(puts), "no put was hedged")
	t.Logf("%d puts, %d requests", puts, requests)
	for i := range puts {
		got, err := objstoretest.Get(t.Context(), metered, fmt.Sprintf("k/%d", i), 0, -1)
		require.NoError(t, err)
		require.True(t, bytes.Equal(content(i), got), "object %d", i)
	}
}
