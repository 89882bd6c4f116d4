package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent"
)

// TestBundle_MiddleBatchesRefused: batches of several producers come to lie side by side in one bundle, and those in
// the middle are a duplicate, one ahead of its sequence, one of a fenced epoch, and one whose gap closes later. Exactly
// the others' bytes are read, at the offsets that were answered: from the writer's memory, from the object store, after
// the control plane came back from a snapshot, and by agents that know nothing.
func TestBundle_MiddleBatchesRefused(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat("h", 64<<10) // the least that a bundle can be sealed at
	full := 0
	for _, values := range [][]string{
		{"a", "b", "c"}, {"sent", "twice"}, {"d"}, {"its beginning never comes"}, {"e", "f"}, {"old epoch"}, {"g"}, {"after the gap"}, {filler},
	} {
		full += len(batch(nobody, 0, values...))
	}
	gathering := true
	c := newCluster(t, options{seed: 9, replica: smallSnapshots, agent: func(cfg *agent.Config) {
		if gathering { // one agent makes all that is sent to it below one bundle, and nothing less
			cfg.Linger, cfg.FlushInterval, cfg.FlushBytes = patience, patience, full
			gathering = false
		}
	}})
	c.createTopic("t", 1)
	w, other := c.dialWire(c.agents[0]), c.dialWire(c.agents[1])
	first, doubled, ahead, fenced, patient := newProducer(w), newProducer(w), newProducer(w), newProducer(w), newProducer(w)
	one := func(b []byte) int16 {
		t.Helper()
		return produced(t, ask[*kmsg.ProduceResponse](other, produceRequest("t", map[int32][]byte{0: b}), patience), 0).ErrorCode
	}
	var want []stored
	end := int64(0)
	expect := func(b []byte, records int64) {
		want = append(want, stored{end, string(b[16:])})
		end += records
	}
	begun := batch(doubled, 0, "sent", "twice")
	require.Zero(t, one(begun))
	expect(begun, 2)
	newer := batch(producer{fenced.id, fenced.epoch + 1}, 0, "newer epoch")
	require.Zero(t, one(newer))
	expect(newer, 1)

	late := batch(patient, 3, "after the gap")
	sent := []struct {
		batch    []byte
		records  int64
		code     int16
		accepted bool
	}{
		{batch(first, 0, "a", "b", "c"), 3, 0, true},
		{begun, 2, 0, false},
		{batch(first, 3, "d"), 1, 0, true},
		{batch(ahead, 7, "its beginning never comes"), 1, kerr.NotLeaderForPartition.Code, false},
		{batch(first, 4, "e", "f"), 2, 0, true},
		{batch(fenced, 0, "old epoch"), 1, kerr.InvalidProducerEpoch.Code, false},
		{batch(nobody, 0, "g"), 1, 0, true},
		{late, 1, 0, false}, // later
		{batch(first, 6, filler), 1, 0, true},
	}
	before := c.audit.puts.Load()
	for _, s := range sent {
		w.send(produceRequest("t", map[int32][]byte{0: s.batch}))
		if s.accepted {
			expect(s.batch, s.records)
		}
	}
	c.await("the bundle is stored", func() bool { return c.audit.puts.Load() > before })
	c.await("it is committed", func() bool {
		got, _ := endOffset(other, "t", 0, patience)
		return got == end
	})
	start := batch(patient, 0, "the", "gap", "closes")
	expect(start, 3)
	expect(late, 1)
	p := produced(t, ask[*kmsg.ProduceResponse](other, produceRequest("t", map[int32][]byte{0: start}), patience), 0)
	require.Zero(t, p.ErrorCode)
	require.Equal(t, end-4, p.BaseOffset)
	require.EqualValues(t, before+2, c.audit.puts.Load(), "all the others lie in one bundle")
	base := int64(3)
	for i, s := range sent {
		resp, err := w.receive(patience)
		require.NoError(t, err)
		p := produced(t, resp, 0)
		require.Equal(t, s.code, p.ErrorCode, "batch %d", i)
		switch {
		case s.accepted:
			require.Equal(t, base, p.BaseOffset, "batch %d", i)
			base += s.records
		case i == 1:
			require.Zero(t, p.BaseOffset, "a duplicate is answered with its true offset")
		case s.code == 0:
			require.Equal(t, end-1, p.BaseOffset, "the batch whose gap closed")
		default:
			require.EqualValues(t, -1, p.BaseOffset, "batch %d", i)
		}
	}

	read := func(what string) {
		t.Helper()
		for _, a := range c.agents {
			w := c.dialWire(a)
			require.Equal(t, want, w.readAll("t", 0, 0), "%s, through %s", what, a.name)
			gotEnd, code := endOffset(w, "t", 0, patience)
			require.Zero(t, code)
			require.Equal(t, end, gotEnd, what)
			for offset := range end { // the batch that has the offset comes first
				got := w.readAll("t", 0, offset)
				i := len(want) - len(got)
				require.GreaterOrEqual(t, i, 0)
				require.Equal(t, want[i:], got, "%s, from offset %d", what, offset)
				require.LessOrEqual(t, want[i].base, offset)
				if i+1 < len(want) {
					require.Greater(t, want[i+1].base, offset)
				}
			}
		}
	}
	read("as it was written")

	// Enough log for two snapshots and a trim; then only the bucket and the log's rest bring the state back.
	c.fillLog()
	for _, p := range c.replicaList() {
		p.crash()
	}
	c.log.ExpireLeases()
	for _, name := range c.opts.replicaNames {
		c.startReplica(name)
	}
	c.owner()
	read("after a snapshot was restored")

	for _, a := range c.agentList() {
		a.stop()
	}
	for range 2 {
		c.startAgent()
	}
	c.awaitMembers()
	read("by new agents")
	for _, a := range c.agents {
		require.Positive(t, a.metric("freshet_cache_gets_total"), "%s read from the store", a.name)
	}
}

// fillLog creates topics until the log is trimmed past its present end.
func (c *cluster) fillLog() {
	c.t.Helper()
	client := c.pinned(c.agents[0])
	defer client.Close()
	_, at := c.log.Indexes()
	round := 0
	c.await("the log trimmed", func() bool {
		var names []string
		for i := range 20 {
			names = append(names, fmt.Sprintf("filler-%0200d-%d", round, i))
		}
		round++
		_, err := kadm.NewClient(client).CreateTopics(c.t.Context(), 1, 1, nil, names...)
		first, _ := c.log.Indexes()
		return err == nil && first > at
	})
}
