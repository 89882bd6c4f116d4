package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

// TestTutorial runs the commands of docs/tutorial.md in their order, in one shell, and compares the output of each block with the text block
// behind it. Inline kcat commands come last: they read as many records as the last block.
func TestTutorial(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs/tutorial.md"))
	require.NoError(t, err)
	dir := checkout(t)
	link(t, dir, "bin/servers/etcd", testservers.Binary(t, "etcd"))
	link(t, dir, "bin/servers/versitygw", testservers.Binary(t, "versitygw"))
	link(t, dir, "deploy", filepath.Join(root, "deploy"))
	blocks := codeBlocks(string(page))
	for _, command := range commandsOf(t, "docs/tutorial.md") {
		if inTutorial(command) {
			harness.Need(t, strings.Fields(command)[0])
			blocks = append(blocks, codeBlock{commands: command + " | wc -l\n", output: blocks[len(blocks)-1].output})
		}
	}
	require.Equal(t, "make cluster\n", blocks[0].commands)
	cluster := startTutorial(t, dir)
	again, err := exec.CommandContext(t.Context(), filepath.Join(dir, "deploy/local/cluster.sh")).CombinedOutput()
	require.Error(t, err, "a second cluster starts, or stops the first")
	require.Contains(t, string(again), "a cluster runs already")

	shell := exec.CommandContext(t.Context(), "sh", "-u")
	shell.Dir = dir
	in, err := shell.StdinPipe()
	require.NoError(t, err)
	out := newOutput(t)
	shell.Stdout, shell.Stderr = out.file, out.file
	require.NoError(t, shell.Start())
	for i, b := range blocks[1:] {
		began, seen := time.Now(), len(out.String())
		_, err := in.Write([]byte(b.commands + "echo end of block $?\n"))
		require.NoError(t, err)
		harness.Await(t, "the end of "+b.commands, func() bool { return strings.Contains(out.String()[seen:], "end of block ") })
		got := out.String()[seen:]
		t.Logf("block %d took %s:\n%s", i+1, time.Since(began).Round(time.Millisecond), got)
		require.Contains(t, got, "end of block 0", b.commands)
		for _, line := range b.output {
			require.Regexp(t, line, got, b.commands)
		}
	}
	require.NoError(t, in.Close())
	require.NoError(t, shell.Wait())
	require.Regexp(t, "(?m)^agent-a1 ended; its log is .*/agent-a1.log. To start it again: deploy/local/cluster.sh agent-a1$", cluster.String())
	require.Regexp(t, "(?m)^agent-a3 started$", cluster.String())
}

// startTutorial runs deploy/local/cluster.sh until the test ends, and returns its output.
func startTutorial(t *testing.T, dir string) output {
	t.Helper()
	cluster := exec.Command(filepath.Join(dir, "deploy/local/cluster.sh")) //nolint:noctx // ends by SIGTERM
	cluster.Dir = dir
	cluster.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := newOutput(t)
	cluster.Stdout, cluster.Stderr = out.file, out.file
	require.NoError(t, cluster.Start())
	ended := make(chan error, 1)
	go func() { ended <- cluster.Wait() }()
	t.Cleanup(func() {
		_ = cluster.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			require.NoError(t, err, out.String())
		case <-time.After(30 * time.Second):
			_ = syscall.Kill(-cluster.Process.Pid, syscall.SIGKILL)
			t.Error("cluster.sh does not end")
		}
	})
	harness.Await(t, "the cluster is ready", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("cluster.sh ended: %v\n%s", err, out)
		default:
		}
		return strings.Contains(out.String(), "The cluster is ready")
	})
	return out
}

// share is a measured percentage with the spaces behind it. The machine's load decides its value.
var share = regexp.MustCompile(`\d+% +`)

// output is the output of a process and of processes that it leaves behind.
type output struct {
	t    *testing.T
	file *os.File
}

func newOutput(t *testing.T) output {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "output"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return output{t, f}
}

func (o output) String() string {
	o.t.Helper()
	text, err := os.ReadFile(o.file.Name())
	require.NoError(o.t, err)
	return string(text)
}

// codeBlock is a block of shell commands with the lines of the text block behind it as regular expressions. "…" stands for any text.
type codeBlock struct {
	commands string
	output   []*regexp.Regexp
}

func codeBlocks(page string) (blocks []codeBlock) {
	var kind string
	var text bytes.Buffer
	for line := range strings.Lines(page) {
		fence, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "```")
		switch {
		case !ok:
			text.WriteString(line)
			continue
		case kind == "sh":
			blocks = append(blocks, codeBlock{commands: text.String()})
		case kind == "text":
			for want := range strings.Lines(text.String()) {
				pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSuffix(want, "\n")), "…", ".*")
				pattern = share.ReplaceAllString(pattern, `\d+% +`)
				last := &blocks[len(blocks)-1]
				last.output = append(last.output, regexp.MustCompile("(?m)^ *"+pattern+"$"))
			}
		}
		kind = fence
		text.Reset()
	}
	return blocks
}
