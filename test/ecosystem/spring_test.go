package ecosystem

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// TestSpring_TransactionalListener runs a service with Spring Kafka. Its listener writes each record of a topic to another one in
// transactions, some of which are rolled back. Each record arrives once, and a record that always fails arrives in the dead-letter topic.
func TestSpring_TransactionalListener(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"classic", "consumer"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t)
			const orders = 30
			p := harness.JavaSourceProcess(t, "spring/Spring.java", nil, b.bootstrap, protocol)
			p.Launch()
			admin := b.admin(t)
			awaitLong(t, "Spring creates its topics", func() bool {
				topics, err := admin.ListTopics(within(t))
				return err == nil && topics.Has("orders") && topics.Has("invoices") && topics.Has("orders-dlt")
			})
			b.produce(t, "orders", 0, numbers(orders)...)
			b.produce(t, "orders", 1, "poison")

			want := []string{}
			for _, n := range numbers(orders) {
				want = append(want, "invoice "+n)
			}
			b.awaitCommitted(t, "invoices", orders)
			b.awaitCommitted(t, "orders-dlt", 1)
			awaitLong(t, "the offsets of all orders are committed", func() bool {
				committed, err := admin.FetchOffsets(within(t), "billing")
				at, _ := committed.Lookup("orders", 0)
				poison, _ := committed.Lookup("orders", 1)
				return err == nil && at.At >= orders && poison.At >= 1
			})
			terminate(t, p)
			require.Equal(t, orders/10, strings.Count(p.Output(), "rolls back order "))
			got := b.values(t, "invoices")
			slices.Sort(got)
			slices.Sort(want)
			require.Equal(t, want, got)
			require.Equal(t, []string{"poison"}, b.values(t, "orders-dlt"))
		})
	}
}
