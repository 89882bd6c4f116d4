package zonewriter

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/freshet-io/freshet/agent/writer"
)

// TestTaker_KeepsToTheWindow: who sends more than the window allows, or large batches not alone, is no agent of this
// protocol; what a stream can hold of this agent's memory stays bounded.
func TestTaker_KeepsToTheWindow(t *testing.T) {
	for name, c := range map[string]struct {
		frame   []writer.Batch
		allowed int // frames
	}{
		"window":    {[]writer.Batch{batch(0, -1, 0, 60<<10)}, 1 + window/(60<<10)},
		"large":     {[]writer.Batch{batch(0, -1, 0, 2*window)}, 2},
		"overhead":  {[]writer.Batch{batch(0, -1, 0, 1)}, 1 + window/frameOverhead},
		"not alone": {[]writer.Batch{batch(0, -1, 0, 40<<10), batch(1, -1, 0, 40<<10)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				blocked := &own{closed: make(chan struct{})}
				taker := NewTaker(blocked, time.Hour, nopLog(), nil)
				mine, its := net.Pipe()
				var serving sync.WaitGroup
				serving.Go(func() { taker.Serve(its, bufio.NewReader(its), me) })
				go func() { _, _ = bufio.NewReader(mine).WriteTo(discard{}) }()
				sent := 0
				for ; sent < 2*window/frameOverhead; sent++ {
					raw := head{kindBatches, uint16(len(c.frame)), uint64(sent + 1)}.append(nil)
					for i := range c.frame {
						raw = append(appendBatchHead(raw, &c.frame[i]), c.frame[i].Bytes...)
					}
					if _, err := mine.Write(raw); err != nil {
						break
					}
				}
				require.LessOrEqual(t, sent, c.allowed+1)
				close(blocked.closed)
				serving.Wait()
				_ = mine.Close()
				require.Empty(t, blocked.take(), "the stream has ended")
			})
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// TestTaker_ForgetsALargeBatchOfAStreamThatEnds: what was read when the stream ended holds nothing of what others wait for.
func TestTaker_ForgetsALargeBatchOfAStreamThatEnds(t *testing.T) {
	taker := NewTaker(&own{}, 0, nopLog(), nil)
	b := batch(0, -1, 0, 2*window)
	raw := append(appendBatchHead(head{kindBatches, 1, 1}.append(nil), &b), b.Bytes...)
	mine, its := net.Pipe()
	defer func() { _, _ = mine.Close(), its.Close() }()
	s := &intake{taker: taker, conn: its, frames: make(chan frame), window: semaphore.NewWeighted(window)}
	s.ctx, s.cancel = context.WithCancelCause(t.Context())
	first, last := raw[:len(raw)-1], raw[len(raw)-1:]
	ends := endsAt(func() { s.cancel(errEnded) })
	s.in = bufio.NewReader(io.MultiReader(bytes.NewReader(first), ends, bytes.NewReader(last)))
	s.read()
	require.True(t, taker.large.TryAcquire(largeBytes), "the batch that was dropped holds its part")
}

// endsAt is a reader of nothing that calls what it is told.
type endsAt func()

func (f endsAt) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}
