package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/internal/program"
)

func TestHelp_ShowsCompletion(t *testing.T) {
	code, out, errs := command(t, nil, "--help")
	require.Equal(t, program.ExitOK, code, errs)
	require.Regexp(t, `(?m)^  completion +Generate the autocompletion script`, out)
}

func TestCompletion_WritesScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, out, errs := command(t, nil, "completion", shell)
		require.Equal(t, program.ExitOK, code, errs)
		require.Empty(t, errs)
		require.Contains(t, out, "__complete", shell)
	}
}

// TestCompletion_OffersNames: topics and groups come from the cluster of the flags or of the environment, without arguments that are
// on the line already.
func TestCompletion_OffersNames(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "lines", "orders"))
	require.NoError(t, err)
	defer cluster.Close()
	address := cluster.ListenAddrs()[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	require.NoError(t, err)
	defer client.Close()
	offsets := kadm.Offsets{}
	offsets.AddOffset("lines", 0, 0, -1)
	require.NoError(t, kadm.NewClient(client).CommitAllOffsets(t.Context(), "readers", offsets))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"produce", ""}, "lines\norders\n:4\n"},
		{[]string{"produce", "lines", ""}, ":4\n"},
		{[]string{"topic", "describe", "lines", ""}, "orders\n:4\n"},
		{[]string{"group", "describe", ""}, "readers\n:4\n"},
		{[]string{"consume", "lines", "--group", ""}, "readers\n:4\n"},
		{[]string{"group", "reset-offsets", "readers", "--topic", ""}, "lines\norders\n:4\n"},
		{[]string{"topic", "create", ""}, ":4\n"},
		{[]string{"topic", "delete", "-b", "127.0.0.1:1", ""}, ":5\n"},
	} {
		code, out, errs := command(t, []string{"FRESHET_BOOTSTRAP_SERVER=" + address, "FRESHET_TIMEOUT=1s"}, append([]string{"__complete"}, c.args...)...)
		require.Equal(t, program.ExitOK, code, errs)
		require.Equal(t, c.want, out, c.args)
	}
}

// TestCompletion_OffersChoices expects every choice, which the shell filters, and ":4", the directive to offer no files.
func TestCompletion_OffersChoices(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"produce", "lines", "--compression", ""}, "none\ngzip\nsnappy\nlz4\nzstd\n:4\n"},
		{[]string{"produce", "lines", "-z", ""}, "none\ngzip\nsnappy\nlz4\nzstd\n:4\n"},
		{[]string{"agent", "--log-format="}, "console\njson\n:4\n"},
	} {
		code, out, errs := command(t, nil, append([]string{"__complete"}, c.args...)...)
		require.Equal(t, program.ExitOK, code, errs)
		require.Equal(t, c.want, out)
	}
}
