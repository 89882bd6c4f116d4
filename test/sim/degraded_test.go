package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// away is longer than an agent trusts a silent stream (3 s).
const away = 4 * time.Second

// TestDegraded_ReadsWhatIsKnown: an agent that has lost the control plane goes on giving consumers the records it knew
// of, says of the end that it does not know it, and goes on when the control plane is there again.
func TestDegraded_ReadsWhatIsKnown(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]func(*cluster) (heal func()){
		"the agent is cut off": func(c *cluster) func() {
			c.agents[1].link.setDown(true)
			return func() { c.agents[1].link.setDown(false) }
		},
		"nothing arrives at the agent": func(c *cluster) func() {
			release := c.agents[1].link.blackhole()
			c.agents[1].link.mu.Lock()
			c.agents[1].link.down = true // once it gives up the stream
			c.agents[1].link.mu.Unlock()
			return func() {
				release()
				c.agents[1].link.setDown(false)
			}
		},
		"no control plane": func(c *cluster) func() {
			for _, p := range c.replicaList() {
				p.crash()
			}
			return func() {
				c.log.ExpireLeases()
				for _, name := range c.opts.replicaNames {
					c.startReplica(name)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, options{seed: 14})
			c.createTopic("t", 1)
			a, b := c.dialWire(c.agents[0]), c.dialWire(c.agents[1])
			known := b.follow(a, 30)
			heal := outage(c)
			began := time.Now()
			c.await("reads of what was known", func() bool {
				b.readsKnown(known)
				return time.Since(began) > away && c.agents[1].metric("freshet_view_stale_plans_total") > 0
			})
			_, code := endOffset(b, "t", 0, patience)
			require.Contains(t, []int16{5, 6, 7}, code)
			heal()
			more := c.produceStored(a, len(known), 5)
			var got []stored
			c.await("the rest", func() bool {
				p := fetched(t, b.fetch("t", map[int32]int64{0: int64(len(known) + len(got))}), 0)
				if p.ErrorCode != 0 {
					require.Contains(t, []int16{5, 6, 7}, p.ErrorCode)
					return false
				}
				got = append(got, batches(t, p.RecordBatches)...)
				return len(got) == len(more)
			})
			require.Equal(t, more, got)
			require.Equal(t, append(known, more...), b.readAll("t", 0, 0))
		})
	}
}

// produceStored produces single records through one agent, trying again while nobody answers for the partition.
func (c *cluster) produceStored(w *wire, from, n int) (out []stored) {
	c.t.Helper()
	for i := from; i < from+n; i++ {
		sent := batch(nobody, 0, fmt.Sprint("record ", i))
		c.await("a produce", func() bool {
			p := produced(c.t, ask[*kmsg.ProduceResponse](w, produceRequest("t", map[int32][]byte{0: sent}), patience), 0)
			if p.ErrorCode == 0 {
				require.EqualValues(c.t, i, p.BaseOffset)
			}
			return p.ErrorCode == 0
		})
		out = append(out, stored{int64(i), string(sent[16:])})
	}
	return out
}

// follow has the agent behind w know of n records that another one takes in, some of them by notices.
func (w *wire) follow(other *wire, n int) (out []stored) {
	w.t.Helper()
	for i := range n {
		sent := batch(nobody, 0, fmt.Sprint("record ", i))
		p := produced(w.t, ask[*kmsg.ProduceResponse](other, produceRequest("t", map[int32][]byte{0: sent}), patience), 0)
		require.Zero(w.t, p.ErrorCode)
		require.EqualValues(w.t, i, p.BaseOffset)
		out = append(out, stored{int64(i), string(sent[16:])})
		if i == 0 {
			require.Equal(w.t, out, w.readAll("t", 0, 0))
		}
	}
	require.Equal(w.t, out[n-1:], w.readAll("t", 0, int64(n-1)))
	return out
}

// readsKnown reads from the beginning to the end that was known, without any error on the way, and is not told there
// that it is the end.
func (w *wire) readsKnown(known []stored) {
	w.t.Helper()
	for at := 0; at < len(known); {
		p := fetched(w.t, w.fetch("t", map[int32]int64{0: int64(at)}), 0)
		require.Zero(w.t, p.ErrorCode, "at %d", at)
		got := batches(w.t, p.RecordBatches)
		require.NotEmpty(w.t, got, "at %d", at)
		require.Equal(w.t, known[at:at+len(got)], got)
		at += len(got)
	}
	p := fetched(w.t, w.fetch("t", map[int32]int64{0: int64(len(known))}), 0)
	require.Contains(w.t, []int16{5, 6, 7}, p.ErrorCode, "an answer at the end that was known")
}
