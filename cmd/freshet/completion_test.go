package main

import (
	"testing"

	"github.com/stretchr/testify/require"

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
