package ecs

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// page is docs/configuration.md, which is generated from the program's flags.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)
	return string(text)
}

// settings returns the lines of a command's flags by name.
func settings(t *testing.T, command string) map[string]string {
	t.Helper()
	_, section, ok := strings.Cut(page(t), "\n## freshet "+command+"\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	flags := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `--([a-z-]+).*$").FindAllStringSubmatch(section, -1) {
		flags[m[1]] = m[0]
	}
	require.NotEmpty(t, flags)
	return flags
}

// ports returns the ports of a flag's default, as [9092 9095] of `:9092-9095`.
func ports(t *testing.T, command, flag string) [2]string {
	t.Helper()
	m := regexp.MustCompile(`:([0-9]{4})(?:-([0-9]{4}))?\b`).FindStringSubmatch(settings(t, command)[flag])
	require.NotNil(t, m, flag)
	if m[2] == "" {
		m[2] = m[1]
	}
	return [2]string{m[1], m[2]}
}
