package harness

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// workerLimit bounds one job of a worker.
const workerLimit = 90 * time.Second

// saidTail is how much of a worker's standard error is logged if the test fails, in bytes.
const saidTail = 4 << 10

// Worker is a client program of another language that stays up and does one job after the other: a line of JSON in, a
// line of JSON out. Safe for concurrent use: jobs wait for each other.
type Worker struct {
	name string
	cmd  *exec.Cmd
	mu   sync.Mutex
	in   io.WriteCloser
	out  chan []byte // lines; closed at the end of the output
	errs *bytes.Buffer
	done chan struct{} // closed when the process was waited for
}

// JavaWorker compiles a class of test/java against Apache Kafka's jars and runs it until the test ends.
func JavaWorker(t testing.TB, class string) *Worker {
	t.Helper()
	jars := Jars(t)
	source := filepath.Join(root(), "test", "java", class+".java")
	content, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	javac := need(t, "javac")
	classes := prepared(t, fmt.Sprintf("classes-%x", sha256.Sum256(append(content, jars...)))[:20], func(dir string) error {
		cmd := exec.Command(javac, "-proc:none", "-Xlint:all", "-Werror", "-cp", filepath.Join(jars, "*"), "-d", dir, source)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("compile %s: %w\n%s", source, err, out)
		}
		return nil
	})
	return startWorker(t, class, need(t, "java"), javaArgs(jars, class, classes)...)
}

// PythonWorker runs a script of test/python until the test ends.
func PythonWorker(t testing.TB, script string) *Worker {
	t.Helper()
	return startWorker(t, script, pythonProgram(t), "-u", filepath.Join(root(), "test", "python", script))
}

func startWorker(t testing.TB, name, program string, args ...string) *Worker {
	t.Helper()
	cmd := exec.Command(program, args...)
	w := &Worker{name: name, cmd: cmd, out: make(chan []byte), errs: &bytes.Buffer{}, done: make(chan struct{})}
	cmd.Stderr = w.errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.in = in
	var read sync.WaitGroup
	stop := make(chan struct{})
	read.Go(func() {
		defer close(w.out)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			select {
			case w.out <- line:
			case <-stop:
				return
			}
		}
	})
	go func() {
		read.Wait()
		_ = cmd.Wait() // how it ended is in its state
		close(w.done)
	}()
	t.Cleanup(func() {
		close(stop)
		w.Kill()
		if t.Failed() {
			said := w.errs.Bytes()
			t.Logf("end of what %s said:\n%s", name, said[max(0, len(said)-saidTail):])
		}
	})
	return w
}

// Kill ends the program at once (SIGKILL) and waits until it is gone.
func (w *Worker) Kill() {
	_ = w.cmd.Process.Kill() // it may have ended
	<-w.done
}

// Close ends the program's input, upon which it ends in good order, and waits until it is gone.
func (w *Worker) Close(t testing.TB) {
	t.Helper()
	if err := w.in.Close(); err != nil {
		t.Fatal(err)
	}
	limit := time.NewTimer(workerLimit)
	defer limit.Stop()
	select {
	case <-w.done:
		if code := w.cmd.ProcessState.ExitCode(); code != 0 {
			t.Fatalf("%s ended with exit code %d\n%s", w.name, code, w.errs)
		}
	case <-limit.C:
		t.Fatalf("%s did not end in %s", w.name, workerLimit)
	}
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
		t.Fatalf("%s: %v\n%s", w.name, err, w.errs)
	}
	limit := time.NewTimer(workerLimit)
	defer limit.Stop()
	select {
	case line, ok := <-w.out:
		if !ok {
			t.Fatalf("%s ended\n%s", w.name, w.errs)
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
