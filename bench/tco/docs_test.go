package tco

import (
	"os"
	"strings"
	"testing"

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
