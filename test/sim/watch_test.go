package sim

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// watch asks one agent after the other for the end of a partition and for what stands before it, while things break.
// What one agent told, every later answer of any agent must show (I4): ends never go back, and a record that was there
// is found again.
type watch struct {
	c      *cluster
	cancel context.CancelFunc
	done   sync.WaitGroup

	answers, errors int
	asking, reading time.Duration // longest until an end was told, and until a fetch was answered after that
	faults          []string
}

// startWatch watches partition 0. The agents' addresses must stay the same.
func startWatch(c *cluster, topic string) *watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{c: c, cancel: cancel}
	addresses := c.seeds()
	c.t.Cleanup(cancel)
	w.done.Go(func() {
		known := int64(0)
		for i := 0; ctx.Err() == nil; i++ {
			address := addresses[i%len(addresses)]
			end, err := w.ask(ctx, address, topic, known)
			if err != nil {
				w.errors++
				<-time.After(20 * time.Millisecond)
				continue
			}
			w.answers++
			if end < known && len(w.faults) < 20 {
				w.faults = append(w.faults, fmt.Sprintf("%s: end %d after %d was told", address, end, known))
			}
			known = max(known, end)
		}
	})
	return w
}

// ask gives the end that an agent tells. An error says that it did not.
func (w *watch) ask(ctx context.Context, address, topic string, known int64) (int64, error) {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	client := &wire{t: w.c.t, conn: conn}
	if err := client.trySend(endRequest(topic, 0)); err != nil {
		return 0, err
	}
	from := max(known-1, 0)
	if err := client.trySend(fetchRequest(topic, map[int32]int64{0: from})); err != nil {
		return 0, err
	}
	began := time.Now()
	answer, err := client.receive(10 * time.Second)
	w.asking = max(w.asking, time.Since(began))
	if err != nil {
		return 0, err
	}
	began = time.Now()
	defer func() { w.reading = max(w.reading, time.Since(began)) }()
	end := answer.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	if answer, err = client.receive(20 * time.Second); err == nil && known > 0 {
		w.checkFetch(address, answer.(*kmsg.FetchResponse), from)
	}
	if end.ErrorCode != 0 {
		return 0, fmt.Errorf("code %d", end.ErrorCode)
	}
	return end.Offset, nil
}

// checkFetch: the record at an offset below a known end is given, or a retriable error, but never nothing.
func (w *watch) checkFetch(address string, answer *kmsg.FetchResponse, from int64) {
	if answer.ErrorCode != 0 || len(answer.Topics) == 0 || len(w.faults) >= 20 {
		return
	}
	p := answer.Topics[0].Partitions[0]
	switch {
	case p.ErrorCode == 1 || p.ErrorCode == 2:
		w.faults = append(w.faults, fmt.Sprintf("%s: fetch at %d: code %d", address, from, p.ErrorCode))
	case p.ErrorCode == 0 && len(p.RecordBatches) == 0:
		w.faults = append(w.faults, fmt.Sprintf("%s: fetch at %d: nothing, end %d", address, from, p.HighWatermark))
	}
}

func (w *watch) stop() {
	w.c.t.Helper()
	w.cancel()
	w.done.Wait()
	w.c.t.Logf("%d ends asked for, %d times without an answer, longest %v, a fetch after that %v", w.answers, w.errors,
		w.asking.Round(time.Millisecond), w.reading.Round(time.Millisecond))
	require.Empty(w.c.t, w.faults, "answers that rest on old knowledge")
	require.Positive(w.c.t, w.answers)
}
