package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/program"
)

func TestTCO_PlainPrintsPublishedBillsAndFreshets(t *testing.T) {
	code, out, errs := command(t, nil, "tco")
	require.Equal(t, program.ExitOK, code, errs)
	for _, line := range []string{
		`total\s+USD/month\s+12,868\.00\s+12,868\s+0\s+equal`,
		`replication to two zones \[\d\]\s+USD/month\s+20,736\.00\s+20,376\s+-360\s+slip`,
		`total\s+USD/month\s+458\.84\s+458\.84\s+0\.00\s+equal`,
		`Freshet, WarpStream's 1 GiB/s: `,
	} {
		require.Regexp(t, line, out)
	}
}

func TestTCO_WorkloadFlagsPrintTheBillsOfThatWorkload(t *testing.T) {
	code, out, errs := command(t, nil, "tco", "--throughput", "48MiB", "--zones", "1", "--compression-ratio", "3", "--json")
	require.Equal(t, program.ExitOK, code, errs)
	var tables []struct {
		Table string
		Lines []struct{ Line, Computed string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &tables))
	require.Len(t, tables, 2)
	require.Equal(t, "freshet", tables[0].Table)
	require.Equal(t, "16", tables[0].Lines[0].Computed, "MiB/s on the wire")
	require.Equal(t, "kafka-floor", tables[1].Table)
	require.Equal(t, "0", tables[1].Lines[1].Computed, "traffic across zones of a cluster in one zone")
	require.Equal(t, "583.7", tables[1].Lines[5].Computed, "3 x 59.568 for brokers, 3 x 1,350 GiB / 0.8 x 0.08 for disks")

	code, _, errs = command(t, nil, "tco", "--hedged-puts", "0", "--tables", "freshet", "--csv")
	require.Equal(t, program.ExitUsage, code)
	require.Contains(t, errs, `tables: "freshet" is not one of`)
}

func TestTCO_OwnPrices(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prices.yaml")
	require.NoError(t, os.WriteFile(path, []byte("sets: [{name: warpstream-2024, date: 2030-01, prices: [{name: s3-put, usd: '0.00001'}]}]"), 0o600))
	code, out, errs := command(t, nil, "tco", "--prices", path, "--tables", "warpstream")
	require.Equal(t, program.ExitOK, code, errs)
	require.Regexp(t, `PUT\s+USD/month\s+3,576\.96\s+1,788\s+-1,789\s+differs\s`, out)
	require.Contains(t, out, "; s3-put: "+path)

	require.NoError(t, os.WriteFile(path, []byte("sets: [{name: freshet, source: contract, prices: [{name: m6in.4xlarge, usd: '0.001'}]}]"), 0o600))
	code, out, errs = command(t, nil, "tco", "--prices", path, "--throughput", "1MiB")
	require.Equal(t, program.ExitOK, code, errs)
	require.Contains(t, out, "m6in.4xlarge, 3 zones", "it is the cheapest now")
	require.Contains(t, out, "; m6in.4xlarge: contract\n")
}

func TestTCOAndModel_AllFaultsOfFlagsAtOnce(t *testing.T) {
	for _, c := range []struct{ args, faults []string }{
		{
			[]string{"tco", "--zones", "0", "--instance", "m5.large", "--compression-ratio", "-1", "--shape", "Q"},
			[]string{"zones: 0 is not between 1 and 16", `instance: unknown instance type "m5.large"`, "compression-ratio: -1", `shape: unknown shape "Q"`, "see freshet-bench tco --help"},
		},
		{
			[]string{"model", "--partitions", "0", "--clients", "kcat", "--brokers", "nats", "--csv"},
			[]string{"partitions: 0 is not between 1", `clients: "kcat" is not one of java`, `brokers: "nats" is not one of kafka`, "CSV is of one table", "see freshet-bench model --help"},
		},
		{[]string{"tco", "--json", "--csv"}, []string{"--json and --csv: give one of them"}},
		{[]string{"model", "--json", "--csv"}, []string{"--json and --csv: give one of them"}},
	} {
		code, _, errs := command(t, nil, c.args...)
		require.Equal(t, program.ExitUsage, code, errs)
		for _, fault := range c.faults {
			require.Contains(t, errs, fault)
		}
	}
}

func TestModel_OneProducerAtOneBroker(t *testing.T) {
	code, out, errs := command(t, nil, "model", "--table", "clients", "--clients", "java", "--brokers", "freshet", "--rate", "15MiB", "--csv")
	require.Equal(t, program.ExitOK, code, errs)
	require.Contains(t, out, "\njava,freshet,4,5,49152,983040,274,3587737,0,batch.size,false,5,-1,batch.size=72704\n")
}
