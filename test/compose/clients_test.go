package compose

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// steady is the topic of the clients that run during the whole test. It has one partition, so its records have one order.
const steady = "steady"

// clients are a producer on the machine and a consumer in a container. Each record is a number, one more than that before.
type clients struct {
	s    *stack
	dir  string // stop ends the producer; their output is in the files produced and consumed
	done chan error
}

// startClients starts both. The producer sends about 20 records a second.
func startClients(s *stack) *clients {
	s.t.Helper()
	c := &clients{s: s, dir: s.t.TempDir(), done: make(chan error, 2)}
	s.clients = c
	s.run("docker compose exec -T control-1 /freshet topic create " + steady)
	c.start("produced", fmt.Sprintf(`n=0; while [ ! -e %s/stop ]; do echo $((++n)); sleep 0.05; done |
		tee %[1]s/sent | ../../bin/linux-*/freshet produce %s --bootstrap-server %s`, c.dir, steady, bootstrap))
	c.start("consumed", fmt.Sprintf(`sed --unbuffered "/^end$/q" < <(exec docker compose exec -T control-2 /freshet consume %s --from earliest 2>%s/errors)`, steady, c.dir))
	c.flows()
	return c
}

// start runs commands in the background. Their output goes to a file.
func (c *clients) start(name, commands string) {
	c.s.t.Helper()
	file, err := os.Create(filepath.Join(c.dir, name))
	require.NoError(c.s.t, err)
	cmd := exec.Command("./stack.sh", "run", commands)
	cmd.Stdout, cmd.Stderr = file, file
	require.NoError(c.s.t, cmd.Start())
	go func() {
		err := cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		file.Close()
		c.done <- err
	}()
}

// lines returns the number of complete lines in a file.
func (c *clients) lines(name string) int {
	c.s.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	require.NoError(c.s.t, err)
	return bytes.Count(text, []byte("\n"))
}

// flows waits until a record has been read that was sent after the call.
func (c *clients) flows() {
	c.s.t.Helper()
	began := time.Now()
	harness.Await(c.s.t, "the producer's input grows", func() bool { return fileExists(filepath.Join(c.dir, "sent")) })
	sent := c.lines("sent")
	harness.Await(c.s.t, "a new record is read", func() bool { return c.lines("consumed") > sent })
	c.s.t.Logf("a record sent now was read after %s", time.Since(began).Round(time.Millisecond))
}

// finish ends both, and compares the records read with the records sent.
func (c *clients) finish() {
	c.s.t.Helper()
	require.NoError(c.s.t, os.WriteFile(filepath.Join(c.dir, "stop"), nil, 0o600))
	require.NoError(c.s.t, <-c.done, "the producer")
	c.s.run(fmt.Sprintf("echo end | kcat -P -b %s -t %s", bootstrap, steady))
	require.NoError(c.s.t, <-c.done, "the consumer")
	sent := c.lines("sent")
	var want strings.Builder
	require.Positive(c.s.t, sent)
	for n := range sent {
		want.WriteString(strconv.Itoa(n+1) + "\n")
	}
	got, err := os.ReadFile(filepath.Join(c.dir, "consumed"))
	require.NoError(c.s.t, err)
	require.Equal(c.s.t, want.String()+"end\n", string(got))
	c.s.t.Logf("%d records were read once and in order", sent)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
