package main

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/lifecycle"
)

// 0 on the command line is "not at all", and stays so where defaults are filled in again.
func TestBindLifecycle_ZeroIsNone(t *testing.T) {
	var s lifecycle.Settings
	s.ApplyDefaults()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	bindLifecycle(f, &s)
	require.Equal(t, "24h0m0s", f.Lookup("topic-undelete").DefValue)
	require.NoError(t, f.Parse([]string{"--topic-undelete=0", "--orphan-sweep=off"}))
	s.ApplyDefaults()
	require.NoError(t, s.Validate())
	require.Zero(t, s.UndeleteMs())
	require.Equal(t, lifecycle.SweepOff, s.OrphanSweep)
	require.Equal(t, "0s", f.Lookup("topic-undelete").Value.String())
	require.NoError(t, f.Parse([]string{"--topic-undelete=1h"}))
	require.Equal(t, time.Hour.Milliseconds(), s.UndeleteMs())
	require.Error(t, f.Parse([]string{"--topic-undelete=-1h"}))
	require.Error(t, f.Parse([]string{"--orphan-sweep=maybe"}))
}
