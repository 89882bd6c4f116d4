package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/freshet-io/freshet/bench/verify"
	"github.com/freshet-io/freshet/internal/program"
)

func runVerify(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	p := bench()
	p.Environ = os.Environ
	p.Streams.In, p.Streams.Out, p.Streams.Err = strings.NewReader(""), &stdout, &stderr
	code = p.Run(t.Context(), append([]string{"verify"}, args...))
	return code, stdout.String(), stderr.String()
}

func TestVerify_Clean(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	defer cluster.Close()
	code, out, errs := runVerify(t, "--bootstrap-server", cluster.ListenAddrs()[0], "--duration", "3s", "--rate", "300", "--transactions",
		"--partitions", "2", "--members", "1", "--json", "--progress", "1s", "--seed", "5")
	require.Equal(t, program.ExitOK, code, "%s%s", out, errs)
	var report verify.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report), out)
	require.True(t, report.Clean)
	require.EqualValues(t, 5, report.Seed)
	require.Contains(t, errs, "sent")
}

func TestVerify_CouldNotRun(t *testing.T) {
	code, _, errs := runVerify(t, "--bootstrap-server", "127.0.0.1:1", "--patience", "300ms")
	require.Equal(t, exitNotRun, code)
	require.Contains(t, errs, "127.0.0.1:1")
	code, _, errs = runVerify(t, "--size", "1", "--rate", "-1")
	require.Equal(t, exitNotRun, code)
	require.Contains(t, errs, "size is 1")
	require.Contains(t, errs, "rate is -1")
}
