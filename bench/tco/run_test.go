package tco

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRun_PlainOutput(t *testing.T) {
	var out strings.Builder
	require.NoError(t, Run(Config{Out: &out}))
	golden(t, "plain.txt", out.String())
}

func TestRun_JSONAndCSVHaveEveryLineOfTheTables(t *testing.T) {
	var text, asJSON, asCSV strings.Builder
	require.NoError(t, Run(Config{Out: &text}))
	require.NoError(t, Run(Config{Out: &asJSON, Format: FormatJSON}))
	require.NoError(t, Run(Config{Out: &asCSV, Format: FormatCSV}))

	var tables []struct {
		Table string `json:"table"`
		Lines []struct{ Line, Computed, Published, Formula string }
	}
	require.NoError(t, json.Unmarshal([]byte(asJSON.String()), &tables))
	records, err := csv.NewReader(strings.NewReader(asCSV.String())).ReadAll()
	require.NoError(t, err)
	require.Equal(t, "table,line,unit,computed,published,difference,verdict,formula,note", strings.Join(records[0], ","))
	ids, row := []string{}, 1
	for _, table := range tables {
		ids = append(ids, table.Table)
		for _, l := range table.Lines {
			require.Contains(t, text.String(), l.Formula)
			require.Equal(t, []string{table.Table, l.Line, l.Computed, l.Published}, []string{records[row][0], records[row][1], records[row][3], records[row][4]})
			row++
		}
	}
	require.Equal(t, IDs(), ids)
	require.Len(t, records, row)
}

func TestRun_TablesByID(t *testing.T) {
	var out strings.Builder
	require.NoError(t, Run(Config{Out: &out, Tables: []string{"aku", "kafka"}}))
	require.True(t, strings.HasPrefix(out.String(), "Apache Kafka, self-hosted"), out.String())
	require.Contains(t, out.String(), "\nAutoMQ's capacity unit")
	require.Equal(t, 2, strings.Count(out.String(), "  prices: "))
}

func TestRun_AllFaultsAtOnce(t *testing.T) {
	w := Workload{}
	w.ApplyDefaults()
	w.Zones, w.CompressionRatio, w.Instance, w.Shape, w.Store, w.BundleBytes = 0, 0.01, "m5.large", "D", "gcs", 1
	err := Run(Config{Custom: &w, Format: "xml", Tables: []string{"redpanda"}})
	require.ErrorIs(t, err, ErrInvalid)
	for _, fault := range []string{
		`format: "xml" is not one of [table json csv]`, `tables: "redpanda" is not one of`, "zones: 0 is not between 1 and 16",
		"compression-ratio: 0.01 is not between", `instance: unknown instance type "m5.large", want one of`,
		`shape: unknown shape "D", want one of A, B, C`, `store: "gcs" is not one of`, "bundle-bytes: 1 is not between",
	} {
		require.ErrorContains(t, err, fault)
	}
}

// golden compares with a file, which UPDATE_GOLDEN=1 writes.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
