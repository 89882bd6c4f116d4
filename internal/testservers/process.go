package testservers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Ready is how long a server may take to answer after it was started: a JVM beside others on a very busy machine takes
// half of it.
const Ready = 3 * time.Minute

// Process is one server process under a test's control. Its output goes to a file, whose end is logged if the test
// fails.
type Process struct {
	t       testing.TB
	place   Place
	program string
	args    []string
	log     string
	ready   func() error // nil when the server answers
	in      io.Reader
	out     io.Writer // nil: log

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the process was waited for
}

// newProcess describes a process; Start runs it.
func newProcess(tb testing.TB, place Place, name, program string, args []string, ready func() error) *Process {
	tb.Helper()
	log, err := newLog(tb.ArtifactDir(), name)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Process{t: tb, place: place, program: program, args: args, ready: ready, log: log}
	tb.Cleanup(func() {
		p.Kill()
		if tb.Failed() {
			tb.Logf("end of %s's output:\n%s", name, p.logTail())
		}
	})
	return p
}

// newLog makes an empty file for what a process says, and gives its path: name.log, and a number behind the name where
// another process of the test is called so too.
func newLog(dir, name string) (string, error) {
	for n := 1; ; n++ {
		path := filepath.Join(dir, name+".log")
		if n > 1 {
			path = filepath.Join(dir, fmt.Sprintf("%s-%d.log", name, n))
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return path, f.Close()
	}
}

// start runs the process and waits until it answers.
func (p *Process) start() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	program, args := p.place.Command(p.program, p.args)
	cmd := exec.Command(program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.in, log, log
	if p.out != nil {
		cmd.Stdout = p.out
	}
	cmd.WaitDelay = time.Second // for an input that has more to give than a process that was killed takes
	endWithParent(cmd)
	done := make(chan struct{})
	started := make(chan error, 1)
	go func() {
		// The parent-death signal is tied to the thread that started the process, so that thread waits for it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	p.mu.Lock()
	p.cmd, p.done = cmd, done
	p.mu.Unlock()
	return nil
}

// awaitReady polls until the server answers, it exits, or Ready is over.
func (p *Process) awaitReady() error {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	deadline := time.NewTimer(Ready)
	defer deadline.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	var last error
	for {
		select {
		case <-done:
			return fmt.Errorf("%s exited: %s", filepath.Base(p.program), p.logTail())
		case <-deadline.C:
			return fmt.Errorf("%s does not answer: %w", filepath.Base(p.program), last)
		case <-poll.C:
			if last = p.ready(); last == nil {
				return nil
			}
		}
	}
}

// Kill ends the process at once (SIGKILL) and waits until it is gone. A process that is not running is left so.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
	p.cmd = nil
}

// Stop pauses the process (SIGSTOP), and returns when it stands still: connections stay open and nothing is answered.
func (p *Process) Stop() {
	p.t.Helper()
	if err := awaitStopped(p.signal(syscall.SIGSTOP)); err != nil {
		p.t.Fatalf("%s does not stop: %v", p.program, err)
	}
}

// Cont lets a paused process go on (SIGCONT).
func (p *Process) Cont() { p.signal(syscall.SIGCONT) }

// Launch starts the process again after Kill, on the same ports and data, without waiting until it answers.
func (p *Process) Launch() {
	p.t.Helper()
	if err := p.start(); err != nil {
		p.t.Fatalf("start %s: %v", p.program, err)
	}
}

// Restart kills the process if it runs, starts it again on the same ports and data, and waits until it answers.
func (p *Process) Restart() {
	p.t.Helper()
	p.Kill()
	p.Launch()
	p.AwaitReady()
}

// AwaitReady waits until the server answers.
func (p *Process) AwaitReady() {
	p.t.Helper()
	if err := p.awaitReady(); err != nil {
		p.t.Fatal(err)
	}
}

// PID is the process id, 0 if it does not run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// signal sends a signal to the process, and gives its id.
func (p *Process) signal(s syscall.Signal) (pid int) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		p.t.Fatalf("%s is not running", p.program)
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %s: %v", p.program, err)
	}
	return p.cmd.Process.Pid
}

func (p *Process) logTail() string {
	const tail = 4 << 10
	out, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(out[max(0, len(out)-tail):])
}
