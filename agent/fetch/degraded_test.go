package fetch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/cache/cachetest"
)

// TestFetcher_OwnerAway: what is known goes on being read, at once; ends are not told, also not beside records.
func TestFetcher_OwnerAway(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		known := e.produce(t, tp(0), batch(10, 1), batch(10, 2))
		e.produce(t, tp(1), batch(10, 1))
		e.fetch(t, request(part(0, 0), part(1, 0)))
		e.stream.Cut()
		synctest.Wait()
		e.produce(t, tp(0), batch(10, 3)) // by another agent
		pass(10 * time.Second)

		began := time.Now()
		resp := e.fetch(t, request(part(0, 0), part(1, 1), part(2, 0)))
		require.Equal(t, known, records(&resp.Results[0]))
		require.Equal(t, kerr.NotLeaderForPartition, errOf(resp, 1), "at the end that was known")
		require.Equal(t, kerr.NotLeaderForPartition, errOf(resp, 2), "never heard of")
		require.Zero(t, time.Since(began), "nobody waits for what does not come")

		for _, offset := range []int64{2, 3} {
			req := request(part(0, offset))
			began = time.Now()
			require.Equal(t, kerr.NotLeaderForPartition, errOf(e.fetch(t, req), 0), "neither the end nor out of range")
			require.GreaterOrEqual(t, time.Since(began), req.MaxWait, "clients are not driven round")
		}

		// Fewer bytes than asked for: they come when the wait is over, or when the owner is there again.
		req := request(part(0, 1))
		req.MinBytes, req.MaxWait = 1000, time.Second
		began = time.Now()
		resp = e.fetch(t, req)
		require.Equal(t, known[len(known)/2:], records(&resp.Results[0]))
		require.Equal(t, time.Second, time.Since(began))
		done := make(chan *Response)
		go func() {
			req := request(part(0, 0))
			req.MinBytes, req.MaxWait = len(known)+1, time.Hour
			done <- e.fetcher.Fetch(t.Context(), req)
		}()
		pass(time.Minute)
		e.stream.Mend()
		resp = <-done
		defer resp.Release()
		require.Greater(t, resp.Results[0].Size, len(known))
	})
}

// TestFetcher_OwnerAwayAndObjectsToo: a bundle that went away meanwhile is nothing that a client hears of as a loss.
func TestFetcher_OwnerAwayAndObjectsToo(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		e.produce(t, tp(0), batch(10, 1))
		e.produce(t, tp(1), batch(10, 1))
		require.NoError(t, e.bucket.Delete(context.Background(), []string{cachetest.Key(1)}))
		e.views.OnConnect()
		e.fetch(t, committed(part(1, 0)))
		req := request(part(0, 1)) // planned, not read
		req.MaxWait = 0
		e.fetch(t, req)
		e.stream.Cut()
		synctest.Wait()
		resp := e.fetch(t, request(part(0, 0)))
		require.Equal(t, kerr.NotLeaderForPartition, errOf(resp, 0))
		resp = e.fetch(t, request(part(0, 0), part(1, 0)))
		require.NotZero(t, resp.Results[1].Size, "others are read")
	})
}

// TestFetcher_OwnerSilent: a stream that is there again but brings no answers is asked first, each time for as long as
// one look-up may take.
func TestFetcher_OwnerSilent(t *testing.T) {
	bubble(t, Config{AskTimeout: time.Second}, func(e *env) {
		t := e.t
		e.produce(t, tp(0), batch(10, 1))
		e.fetch(t, request(part(0, 0)))
		e.stream.Break()
		synctest.Wait()
		e.hold()
		began := time.Now()
		resp := e.fetch(t, request(part(0, 0)))
		require.NotZero(t, resp.Bytes)
		require.Equal(t, time.Second, time.Since(began))
		e.stream.Resume()
	})
}
