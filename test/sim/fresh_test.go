package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// tail is what an agent says of a partition's end: the end offset, and what a fetch from one record before brings.
// Errors are answers too; a made-up end is not.
type tail struct {
	end      int64
	endCode  int16
	read     []stored
	readCode int16
}

func (w *wire) tail(topic string, from int64) (t tail) {
	w.t.Helper()
	t.end, t.endCode = endOffset(w, topic, 0, patience)
	p := fetched(w.t, w.fetch(topic, map[int32]int64{0: from}), 0)
	t.readCode = p.ErrorCode
	if p.ErrorCode == 0 {
		t.read = batches(w.t, p.RecordBatches)
	}
	return t
}

// TestFresh_NoticesBlackholed: what the control plane sends to one agent arrives no more, and the agent is not told.
// As soon as a produce through the other agent is acknowledged, the deaf one answers with it, or says that it does not
// know, but never with an end that is short (I4).
func TestFresh_NoticesBlackholed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{seed: 10})
	c.createTopic("t", 1)
	a, b := c.dialWire(c.agents[0]), c.dialWire(c.agents[1])
	produce := func(i int) []byte {
		t.Helper()
		sent := batch(nobody, 0, fmt.Sprint("record ", i))
		p := produced(t, ask[*kmsg.ProduceResponse](a, produceRequest("t", map[int32][]byte{0: sent}), patience), 0)
		require.Zero(t, p.ErrorCode)
		require.EqualValues(t, i, p.BaseOffset)
		return sent
	}
	produce(0)
	require.EqualValues(t, 1, b.tail("t", 0).end) // b follows the partition now
	unknown := 0
	for i := 1; i <= 4; i++ {
		release := c.agents[1].link.blackhole()
		sent := produce(i)
		want := tail{end: int64(i + 1), read: []stored{{int64(i), string(sent[16:])}}}
		began := time.Now()
		c.await("an answer that knows the end", func() bool {
			got := b.tail("t", int64(i))
			if got.endCode != 0 || got.readCode != 0 {
				unknown++
				require.True(t, got.endCode == 0 || got.endCode == 6 || got.endCode == 7, "end: %d", got.endCode)
				require.True(t, got.readCode == 0 || got.readCode == 6 || got.readCode == 7, "read: %d", got.readCode)
				if got.endCode == 0 {
					require.Equal(t, want.end, got.end)
				}
				if got.readCode == 0 {
					require.Equal(t, want.read, got.read)
				}
				return false
			}
			require.Equal(t, want, got)
			return true
		})
		t.Logf("right answer after %v", time.Since(began).Round(time.Millisecond))
		release()
	}
	t.Logf("%d answers did not know", unknown)

	// Cut off for good: no answer about the end at all.
	c.agents[1].link.setDown(true)
	produce(5)
	got := b.tail("t", 5)
	require.NotZero(t, got.endCode)
	if got.readCode == 0 {
		require.NotEmpty(t, got.read, "an empty answer says that there is nothing")
	}
	c.agents[1].link.setDown(false)
}
