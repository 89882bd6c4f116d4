package testservers

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

// NewProcess describes a process of the test's own; Launch starts it. ready gives nil when the process serves.
func NewProcess(tb testing.TB, name, program string, args []string, ready func() error) *Process {
	tb.Helper()
	return newProcess(tb, Place{}, name, program, args, ready)
}

// NewProcessAt is NewProcess for one that runs elsewhere.
func NewProcessAt(tb testing.TB, place Place, name, program string, args []string, ready func() error) *Process {
	tb.Helper()
	return newProcess(tb, place, name, program, args, ready)
}

// Pipe gives the process a standard input, and its standard output to out, from its next start on. Either may be nil:
// there is no input then, and the output goes to where errors go. Both are done with when the process has ended.
func (p *Process) Pipe(in io.Reader, out io.Writer) { p.in, p.out = in, out }

// Await waits until the process ends by itself. One that fails, or does not end before ctx, is an error.
func (p *Process) Await(ctx context.Context) error {
	p.mu.Lock()
	cmd, done := p.cmd, p.done
	p.mu.Unlock()
	if cmd == nil {
		return fmt.Errorf("%s does not run", p.program)
	}
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("%s still runs: %w", p.program, context.Cause(ctx))
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s ended with exit code %d: %s", p.program, code, p.logTail())
	}
	return nil
}

// Terminate asks the process to end (SIGTERM) and waits until it is gone, for at most limit. It gives how long that
// took. A process that does not end in time, or with a failure, is an error.
func (p *Process) Terminate(limit time.Duration) (time.Duration, error) {
	p.t.Helper()
	began := time.Now()
	p.signal(syscall.SIGTERM)
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done:
	case <-time.After(limit):
		return time.Since(began), fmt.Errorf("%s still runs %s after SIGTERM", p.program, limit)
	}
	cmd := p.cmd
	p.cmd = nil
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		return time.Since(began), fmt.Errorf("%s ended with exit code %d: %s", p.program, code, p.logTail())
	}
	return time.Since(began), nil
}

// Output is what the process has written to standard output and error so far, over all its starts.
func (p *Process) Output() string {
	out, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// Running tells whether the process was started and has not ended, by itself or killed.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}
