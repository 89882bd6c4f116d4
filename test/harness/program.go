package harness

import (
	"fmt"
	"io"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/freshet-io/freshet/internal/testservers"
)

// program is a process that workers run in. It ends with its input.
type program struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  io.Reader // to be read to its end
	errs said
	read chan struct{} // to be closed when out was read
	done chan struct{} // closed when the process was waited for
}

func startProgram(place testservers.Place, name, path string, args ...string) (*program, error) {
	path, args = place.Command(path, args)
	p := &program{name: name, cmd: exec.Command(path, args...), read: make(chan struct{}), done: make(chan struct{})}
	p.cmd.Stderr = &p.errs
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		<-p.read
		_ = p.cmd.Wait() // how it ended is in its state
		close(p.done)
	}()
	return p, nil
}

// kill ends the program at once (SIGKILL) and waits until it is gone.
func (p *program) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// wait waits until the program, whose input has ended, has ended in good order.
func (p *program) wait() error {
	limit := time.NewTimer(workerLimit)
	defer limit.Stop()
	select {
	case <-p.done:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			return fmt.Errorf("%s ended with exit code %d\n%s", p.name, code, &p.errs)
		}
		return nil
	case <-limit.C:
		return fmt.Errorf("%s did not end in %s", p.name, workerLimit)
	}
}

// logIfFailed logs what the program said last, if the test has failed.
func (p *program) logIfFailed(t testing.TB) {
	t.Helper()
	if t.Failed() {
		t.Logf("end of what %s said:\n%s", p.name, &p.errs)
	}
}

// saidTail is how much of what a program says on standard error is kept, in bytes.
const saidTail = 4 << 10

// said is the end of what a program has said so far. Safe for concurrent use.
type said struct {
	mu   sync.Mutex
	tail []byte
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = append(s.tail, p...)
	s.tail = s.tail[max(0, len(s.tail)-saidTail):]
	return len(p), nil
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.tail)
}
