package harness

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// clientLimit bounds any one client process.
const clientLimit = 5 * time.Minute

// kcatPatience is how long kcat waits for metadata, in seconds; by default 5.
const kcatPatience = "60"

// Result is how a client process ended.
type Result struct {
	Out  string
	Err  string
	Code int
}

// run runs a client to its end. in may be nil.
func run(t testing.TB, in io.Reader, program string, args ...string) Result {
	t.Helper()
	var out bytes.Buffer
	r := runTo(t, in, &out, program, args...)
	r.Out = out.String()
	return r
}

// runTo is run with the output going elsewhere.
func runTo(t testing.TB, in io.Reader, out io.Writer, program string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &errs
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatalf("%s: %v", program, err)
	}
	if ctx.Err() != nil {
		t.Fatalf("%s %s did not end in %s\n%s", program, strings.Join(args, " "), clientLimit, errs.String())
	}
	return Result{Err: errs.String(), Code: cmd.ProcessState.ExitCode()}
}

// ok fails the test unless the client ended well.
func ok(t testing.TB, program string, r Result) {
	t.Helper()
	if r.Code != 0 {
		t.Fatalf("%s: exit code %d\n%s\n%s", program, r.Code, r.Out, r.Err)
	}
}

// CLI runs a client command of the binary under test against a cluster.
func CLI(t testing.TB, bootstrap string, in io.Reader, args ...string) string {
	t.Helper()
	r := TryCLI(t, bootstrap, in, args...)
	ok(t, "freshet "+strings.Join(args, " "), r)
	return r.Out
}

// TryCLI is CLI for commands that may fail.
func TryCLI(t testing.TB, bootstrap string, in io.Reader, args ...string) Result {
	t.Helper()
	return run(t, in, Freshet(t), append(args, "--bootstrap-server", bootstrap)...)
}

// Kcat runs kcat against a cluster, with output to out.
func Kcat(t testing.TB, bootstrap string, in io.Reader, out io.Writer, args ...string) {
	t.Helper()
	program := need(t, "kcat")
	ok(t, "kcat "+strings.Join(args, " "), runTo(t, in, out, program, append([]string{"-b", bootstrap, "-q", "-m", kcatPatience}, args...)...))
}

// Operate runs a command of the binary under test that asks the control planes of a cluster. The command may fail.
func Operate(t testing.TB, c *Cluster, args ...string) Result {
	t.Helper()
	var addresses []string
	for _, p := range c.ControlPlanes {
		addresses = append(addresses, strings.TrimPrefix(p.HTTP, "http://"))
	}
	return run(t, nil, Freshet(t), append(args, "--control-plane-http", strings.Join(addresses, ","),
		"--virtual-cluster", virtualCluster, "--operator-key", c.OperatorKey)...)
}
