package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// jobs gives the background jobs that have been completed, as kind and level, as `freshet job list` tells them.
func jobs(t *testing.T, d *harness.Dev) (done []string) {
	t.Helper()
	list := func(args ...string) []byte {
		out, err := exec.CommandContext(t.Context(), harness.Freshet(t), append([]string{"job", "list", "--data-dir", d.DataDir}, args...)...).Output()
		require.NoError(t, err)
		return out
	}
	require.True(t, strings.HasPrefix(string(list()), "JOB "), "the table")
	var all []struct {
		State, Kind string
		Level       int
	}
	require.NoError(t, json.Unmarshal(list("-o", "json"), &all))
	for _, j := range all {
		if j.State == "completed" {
			done = append(done, fmt.Sprint(j.Kind, j.Level))
		}
	}
	return done
}

// TestDev_Jobs has what was written compacted and cleaned: a topic keeps its records, a compacted topic the latest of each
// key, over kill -9 too.
func TestDev_Jobs(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t, "--compact-after", "1s")
	cli := func(in string, args ...string) string {
		t.Helper()
		return harness.CLI(t, d.Bootstrap, strings.NewReader(in), args...)
	}
	read := func(topic string) string { return cli("", "consume", topic, "--from", "earliest", "--exit-at-end") }
	cli("", "topic", "create", "all")
	cli("", "topic", "create", "latest", "-c", "cleanup.policy=compact")
	for i := range 5 {
		cli(numbers(100*i+1, 100*i+100), "produce", "all")
		cli(fmt.Sprintf("a=a%d\nb=b%d\n", i, i), "produce", "latest", "--key-separator", "=")
	}
	harness.Await(t, "a job that compacts", func() bool { return strings.Contains(fmt.Sprint(jobs(t, d)), "compact1") })
	harness.Await(t, "one that cleans", func() bool { return strings.Contains(fmt.Sprint(jobs(t, d)), "clean2") })
	check := func() {
		t.Helper()
		require.Equal(t, numbers(1, 500), read("all"))
		require.Equal(t, "a4\nb4\n", read("latest"))
	}
	check()
	d.Kill()
	d.Launch()
	d.AwaitReady()
	check()
}
