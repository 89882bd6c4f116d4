package ecosystem

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
)

// TestQuixStreams_ExactlyOnce sums payments of customers with Quix Streams. The application ends, loses its local state and restores
// it from its changelog topic. Of each customer, every total arrives once and in order.
func TestQuixStreams_ExactlyOnce(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	b.create(t, "payments", 2)
	b.create(t, "totals", 2)
	const customers, rounds = 5, 40
	pay := func() {
		client := b.client(t, kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
		var payments []*kgo.Record
		for i := range customers * rounds {
			payments = append(payments, &kgo.Record{Topic: "payments", Key: []byte("c" + strconv.Itoa(i%customers)), Value: []byte("2")})
		}
		require.NoError(t, client.ProduceSync(within(t), payments...).FirstErr())
	}
	for run := 1; run <= 2; run++ {
		pay()
		p := harness.PythonProcess(t, "quix/totals.py", b.bootstrap, t.TempDir())
		p.Launch()
		b.awaitCommitted(t, "totals", run*customers*rounds)
		_, err := p.Terminate(ending)
		require.NoError(t, err)
	}
	next := map[string]int{}
	for _, r := range b.committed(t, "totals") {
		customer := string(r.Key)
		next[customer] += 2
		require.Equal(t, strconv.Itoa(next[customer]), string(r.Value), customer)
	}
	require.Len(t, next, customers)
	for customer, total := range next {
		require.Equal(t, 2*2*rounds, total, customer)
	}
}
