package compose

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testservers"
)

const (
	archive   = "../../bin/compose/image.tar"
	guide     = "../../docs/compose.md"
	bootstrap = "127.0.0.1:19092,127.0.0.1:19093,127.0.0.1:19094" // of clients on this machine
)

// stack is the project of deploy/compose in its namespaces.
type stack struct {
	t       *testing.T
	page    map[string][]string // commands of docs/compose.md by section, until the test runs them
	clients *clients
}

// flows is that of the clients.
func (s *stack) flows() {
	s.t.Helper()
	s.clients.flows()
}

// newStack makes the namespaces and images. All is removed at the end of the test.
func newStack(t *testing.T) *stack {
	t.Helper()
	s := &stack{t: t, page: sections(t)}
	began := time.Now()
	t.Cleanup(func() {
		if t.Failed() {
			out, err := script("run", "podman ps --all; docker compose logs --tail 200 >../../bin/compose/logs.txt 2>&1")
			t.Log(out, "logs are in bin/compose/logs.txt", err)
		}
		out, err := script("down")
		require.NoError(t, err, out)
	})
	_, err := script("up", testservers.Binary(t, "etcd"), testservers.Binary(t, "etcdctl"), testservers.Binary(t, "versitygw"), archive)
	require.NoError(t, err)
	t.Logf("namespaces and images took %s", time.Since(began).Round(time.Millisecond))
	return s
}

// script runs stack.sh and returns its standard output. The error has the standard error.
func script(args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.Command("./stack.sh", args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("stack.sh %s: %w\n%s%s", strings.Join(args, " "), err, &out, &errs)
	}
	return out.String(), nil
}

// try runs shell commands in the namespaces, in deploy/compose, and returns their standard output.
func (s *stack) try(commands string) (string, error) { return script("run", commands) }

// run is try for commands that must succeed.
func (s *stack) run(commands string) string {
	s.t.Helper()
	out, err := s.try(commands)
	require.NoError(s.t, err)
	return out
}

// section runs the commands of a section of the page that have not run yet, and returns their output.
func (s *stack) section(heading string) string {
	s.t.Helper()
	commands, ok := s.page[heading]
	require.True(s.t, ok, "%s has no commands in %q", guide, heading)
	delete(s.page, heading)
	out := s.run(strings.Join(commands, ""))
	s.t.Logf("%s\n%s", heading, out)
	return out
}

// sections returns the lines in the shell blocks of the page, by heading.
func sections(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(guide)
	require.NoError(t, err)
	found, heading, shell := map[string][]string{}, "", false
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "## "):
			heading = strings.TrimSpace(line[3:])
		case strings.HasPrefix(line, "```"):
			shell = line == "```sh\n"
		case shell:
			found[heading] = append(found[heading], line)
		}
	}
	require.NotEmpty(t, found)
	return found
}
