package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/internal/program"
)

// stopMargin is what a process may take beyond draining to stop.
const stopMargin = 2 * time.Second

func TestUnits_FitTheProgram(t *testing.T) {
	for _, name := range []string{"agent", "controlplane"} {
		text, err := os.ReadFile("../../deploy/systemd/freshet-" + name + ".service")
		require.NoError(t, err)
		setting := func(key string) string {
			m := regexp.MustCompile(`(?m)^` + key + `=(.*)$`).FindStringSubmatch(string(text))
			require.NotNil(t, m, "%s has no %s", name, key)
			return m[1]
		}
		stop, err := time.ParseDuration(setting("TimeoutStopSec"))
		require.NoError(t, err)
		require.GreaterOrEqual(t, stop, edge.DefaultDrainTimeout+stopMargin)
		args, ok := strings.CutPrefix(setting("ExecStart"), "/usr/local/bin/freshet ")
		require.True(t, ok)
		code, out, errs := command(t, nil, args, "--help")
		require.Equal(t, program.ExitOK, code, errs)
		require.Contains(t, out, "freshet "+args)
		for _, variable := range regexp.MustCompile(`FRESHET_[A-Z_]+`).FindAllString(string(text), -1) {
			flag := "--" + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, "FRESHET_"), "_", "-"))
			require.Regexp(t, flag+`\b`, out, "%s names %s", name, variable)
		}
	}
}
