package tco

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/bench/tco/catalog"
)

// docs/cost.md has the figures that the command prints.
func TestDocs_HaveTheFiguresThatAreComputed(t *testing.T) {
	text, err := os.ReadFile("../../docs/cost.md")
	require.NoError(t, err)
	rows := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		for _, table := range published(t) {
			for _, l := range table.Lines {
				_, differs := documented[table.ID+"/"+l.Name]
				if differs && strings.Contains(line, "| "+l.printed()+" | "+grouped(l.Shown().StringFixed(l.Places))+" |") {
					rows++
				}
			}
		}
	}
	require.Equal(t, len(documented), rows, "rows of the table of what does not come out")

	prices, err := catalog.LoadPrices("")
	require.NoError(t, err)
	for _, w := range SameWorkloads() {
		bill, err := Bill("x", w, prices)
		require.NoError(t, err)
		figures := map[string]string{}
		for _, l := range bill.Lines {
			figures[l.Name] = l.figure()
		}
		require.Contains(t, string(text), "| "+figures["without storage"]+" | "+figures["total"]+" |", w.Name)
	}
}

// The first table of docs/cost.md has the totals of freshet-bench tco --throughput X --retention 72h.
func TestDocs_BeginWithTotals(t *testing.T) {
	text, err := os.ReadFile("../../docs/cost.md")
	require.NoError(t, err)
	for name, rate := range map[string]int64{"1 MiB/s": 1, "10 MiB/s": 10, "100 MiB/s": 100, "1 GiB/s": 1024} {
		freshet, kafka := bills(t, rate)
		sum := func(names ...string) string {
			var all decimal.Decimal
			for _, n := range names {
				require.Contains(t, freshet, n)
				all = all.Add(freshet[n])
			}
			return grouped(all.StringFixed(0))
		}
		require.Contains(t, string(text), fmt.Sprintf("| %s | %s | %s | %s | %s | %s | **%s** | %s |\n", name,
			sum("agents"), sum("control plane", "disks of etcd"), sum("PUT of bundles", "GET of live reads", "compaction, requests"),
			sum("control plane across zones"), sum("storage"), sum("total"), grouped(kafka["total"].StringFixed(0))))
	}
	require.Contains(t, string(text), "Below about 3 MiB/s")
	for rate, cheaper := range map[int64]bool{2: false, 3: true} {
		freshet, kafka := bills(t, rate)
		require.Equal(t, cheaper, freshet["total"].LessThan(kafka["total"]), "Freshet's bill at %d MiB/s is below Apache Kafka's", rate)
	}
}

// bills returns the lines of Freshet's bill and of Apache Kafka's for a rate in MiB/s that is kept for 3 days.
func bills(t *testing.T, rate int64) (freshet, kafka map[string]decimal.Decimal) {
	t.Helper()
	prices, err := catalog.LoadPrices("")
	require.NoError(t, err)
	w := Workload{Throughput: rate * mib, Retention: 72 * time.Hour}
	w.ApplyDefaults()
	lines := func(bill Table, err error) map[string]decimal.Decimal {
		require.NoError(t, err)
		all := map[string]decimal.Decimal{}
		for _, l := range bill.Lines {
			all[l.Name] = l.Shown()
		}
		return all
	}
	return lines(Bill("freshet", w, prices)), lines(KafkaFloor(w, prices))
}
