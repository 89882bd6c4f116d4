package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/program"
)

// TestClientCommands_ShareFlags checks the flags that every command of a cluster's client has under the same name.
func TestClientCommands_ShareFlags(t *testing.T) {
	flags := map[string][]string{
		"--bootstrap-server": {"topic create", "topic list", "topic describe", "topic alter", "topic delete", "group list", "group describe", "group delete", "group reset-offsets", "produce", "consume"},
		"--output":           {"topic create", "topic list", "topic describe", "topic alter", "topic delete", "topic undelete", "topic purge", "group list", "group describe", "group delete", "group reset-offsets", "produce", "consume", "job list", "zone list", "zone writers", "bucket show", "bucket move", "bundle inspect", "bundle list", "bundle cut", "key create", "cluster list", "status", "version", "ctl signup", "ctl verify", "ctl login", "ctl password", "ctl request-reset", "ctl reset-password", "ctl team create", "ctl team approve", "ctl team get", "ctl team rename", "ctl team leave", "ctl cluster list", "ctl cluster list-all", "ctl cluster create", "ctl cluster get", "ctl cluster rename", "ctl cluster suspend", "ctl cluster resume", "ctl cluster delete", "ctl cluster undelete", "ctl cluster purge", "ctl cluster limit", "ctl cluster block", "ctl cluster unblock", "ctl key list", "ctl key create", "ctl key revoke", "ctl member list", "ctl member set-role", "ctl member remove", "ctl invitation list", "ctl invitation create", "ctl invitation accept", "ctl invitation revoke", "ctl token list", "ctl token create", "ctl token revoke", "ctl audit"},
	}
	shorthands := map[string]string{"--bootstrap-server": "b", "--output": "o"}
	found := map[string][]string{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		require.Nil(t, c.Flags().Lookup("bootstrap"), c.CommandPath())
		require.Nil(t, c.Flags().Lookup("json"), c.CommandPath())
		for flag, shorthand := range shorthands {
			if f := c.Flags().Lookup(flag[2:]); f != nil {
				require.Equal(t, shorthand, f.Shorthand, c.CommandPath())
				found[flag] = append(found[flag], c.CommandPath()[len("freshet "):])
			}
		}
		for _, child := range c.Commands() {
			walk(child)
		}
	}
	walk(freshet().Root())
	for flag, commands := range flags {
		require.ElementsMatch(t, commands, found[flag], flag)
	}
}

func TestConsume_FormatsExcludeEachOther(t *testing.T) {
	for _, flag := range []string{"--format=%v", "--print-key"} {
		code, _, errs := command(t, nil, "consume", "lines", "-o", "json", flag)
		require.Equal(t, program.ExitUsage, code, errs)
		require.Contains(t, errs, "--format and --print-key go without --output json")
	}
}
