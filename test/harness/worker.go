package harness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/freshet-io/freshet/internal/testservers"
)

// workerLimit bounds one job of a worker, and its end.
const workerLimit = 3 * time.Minute

// Worker is a client program of another language that stays up and does one job after the other: a line of JSON in, a
// line of JSON out. Safe for concurrent use: jobs wait for each other.
type Worker struct {
	name string
	p    *program // that it runs in
	own  bool     // alone
	mu   sync.Mutex
	in   io.WriteCloser
	out  chan []byte // lines; closed at the end of the output
	stop chan struct{}

	end   sync.Once // of the input
	ended error
}

// PythonWorker runs a script of test/python until the test ends.
func PythonWorker(t testing.TB, script string) *Worker {
	t.Helper()
	return PythonWorkerAt(t, testservers.Place{}, script)
}

// PythonWorkerAt is PythonWorker elsewhere.
func PythonWorkerAt(t testing.TB, place testservers.Place, script string) *Worker {
	t.Helper()
	return startWorker(t, place, script, pythonProgram(t), "-u", filepath.Join(root(), "test", "python", script))
}

// startWorker starts a worker that is a process of its own.
func startWorker(t testing.TB, place testservers.Place, name, path string, args ...string) *Worker {
	t.Helper()
	p, err := startProgram(place, name, path, args...)
	if err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	w := newWorker(p, name, p.in)
	w.own = true
	go func() {
		defer close(p.read)
		w.read(p.out)
	}()
	t.Cleanup(func() {
		close(w.stop)
		p.kill()
		p.logIfFailed(t)
	})
	return w
}

func newWorker(p *program, name string, in io.WriteCloser) *Worker {
	return &Worker{name: name, p: p, in: in, out: make(chan []byte), stop: make(chan struct{})}
}

// read takes lines to where they are waited for, until there are no more or stop is closed.
func (w *Worker) read(out io.Reader) {
	defer close(w.out)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		select {
		case w.out <- line:
		case <-w.stop:
			return
		}
	}
}

// Kill ends a worker that is a process of its own at once (SIGKILL) and waits until it is gone.
func (w *Worker) Kill() {
	if !w.own {
		panic(w.name + " shares its process with others")
	}
	w.p.kill()
}

// Close ends the worker's input, upon which it ends in good order, and waits until it has.
func (w *Worker) Close(t testing.TB) {
	t.Helper()
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
}

func (w *Worker) close() error {
	w.end.Do(func() { w.ended = w.awaitEnd() })
	return w.ended
}

func (w *Worker) awaitEnd() error {
	if err := w.in.Close(); err != nil {
		return fmt.Errorf("end the input of %s: %w", w.name, err)
	}
	limit := time.NewTimer(workerLimit)
	defer limit.Stop()
	select {
	case line, ok := <-w.out:
		if ok {
			return fmt.Errorf("%s did not end well: %s\n%s", w.name, line, &w.p.errs)
		}
	case <-limit.C:
		return fmt.Errorf("%s did not end in %s\n%s", w.name, workerLimit, &w.p.errs)
	}
	if w.own {
		return w.p.wait()
	}
	return nil
}

// Call does one job: job is its JSON, result takes the answer's. A job that the program failed at is an error with
// the program's words.
func (w *Worker) Call(t testing.TB, job, result any) error {
	t.Helper()
	line, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.in.Write(append(line, '\n')); err != nil {
		t.Fatalf("%s: %v\n%s", w.name, err, &w.p.errs)
	}
	limit := time.NewTimer(workerLimit)
	defer limit.Stop()
	select {
	case line, ok := <-w.out:
		if !ok {
			t.Fatalf("%s ended\n%s", w.name, &w.p.errs)
		}
		var failed struct{ Error string }
		if err := json.Unmarshal(line, &failed); err != nil {
			t.Fatalf("%s answered %q: %v", w.name, line, err)
		}
		if failed.Error != "" {
			return fmt.Errorf("%s: %s", w.name, failed.Error)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(line, result)
	case <-limit.C:
		t.Fatalf("%s did not end a job in %s\n%s", w.name, workerLimit, line)
		return nil
	}
}
