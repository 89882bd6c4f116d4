package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSplit_NewProducerOverTwoAgents: the first batches of a new producer go through two agents, the second one first.
// It waits for the first one instead of failing the producer.
func TestSplit_NewProducerOverTwoAgents(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{0, 500 * time.Millisecond, time.Second} {
		t.Run(delay.String(), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, options{seed: 13})
			c.createTopic("t", 1)
			a, b := c.dialWire(c.agents[0]), c.dialWire(c.agents[1])
			p := newProducer(a)
			first, second, third := batch(p, 0, "1", "2", "3"), batch(p, 3, "4", "5"), batch(p, 5, "6")
			b.send(produceRequest("t", map[int32][]byte{0: second}))
			b.send(produceRequest("t", map[int32][]byte{0: third}))
			<-time.After(delay)
			a.send(produceRequest("t", map[int32][]byte{0: first}))
			for _, answer := range []struct {
				from *wire
				base int64
			}{{a, 0}, {b, 3}, {b, 5}} {
				resp, err := answer.from.receive(patience)
				require.NoError(t, err)
				got := produced(t, resp, 0)
				require.Zero(t, got.ErrorCode)
				require.Equal(t, answer.base, got.BaseOffset)
			}
			want := []stored{{0, string(first[16:])}, {3, string(second[16:])}, {5, string(third[16:])}}
			for _, w := range []*wire{a, b} {
				require.Equal(t, want, w.readAll("t", 0, 0))
			}
		})
	}
}

// TestSplit_TwoProducersCrosswise: each of two agents has what the other's gap waits for.
func TestSplit_TwoProducersCrosswise(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{seed: 14})
	c.createTopic("t", 2)
	a, b := c.dialWire(c.agents[0]), c.dialWire(c.agents[1])
	for round := range 20 {
		ok := t.Run(fmt.Sprint(round), func(t *testing.T) {
			p, q := newProducer(a), newProducer(a)
			partition := func(x producer) int32 { return int32(round % 2 * int(x.id&1)) } // the same one, or two
			send := func(w *wire, x producer, sequence int32) {
				w.send(produceRequest("t", map[int32][]byte{partition(x): batch(x, sequence, fmt.Sprintf("%d/%d", x.id, sequence))}))
			}
			send(a, p, 1)
			send(b, q, 1)
			send(a, q, 0)
			send(b, p, 0)
			bases := map[string]int64{}
			for _, answer := range []struct {
				from     *wire
				producer producer
				sequence int32
			}{{a, p, 1}, {a, q, 0}, {b, q, 1}, {b, p, 0}} {
				resp, err := answer.from.receive(patience)
				require.NoError(t, err)
				got := produced(t, resp, partition(answer.producer))
				require.Zero(t, got.ErrorCode, "nobody waited for a time-out")
				bases[fmt.Sprintf("%d/%d", answer.producer.id, answer.sequence)] = got.BaseOffset
			}
			for _, x := range []producer{p, q} {
				require.Less(t, bases[fmt.Sprintf("%d/0", x.id)], bases[fmt.Sprintf("%d/1", x.id)])
			}
		})
		require.True(t, ok, "the connections may hold answers of the round that failed")
	}
	total := 0
	for p := range int32(2) {
		for i, s := range b.readAll("t", p, 0) {
			require.EqualValues(t, i, s.base)
			total++
		}
	}
	require.Equal(t, 80, total)
}
