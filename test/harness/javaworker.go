package harness

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/freshet-io/freshet/internal/testservers"
)

// javaHost is the main class of test/java, which runs the others.
const javaHost = "Host"

// shared is the JVM of all Java workers of this test process that need none of their own: to start one takes longer than
// most do to work, and they run the faster the longer it has run.
var shared struct {
	ends    bool // by Main
	once    sync.Once
	p       *program
	address string // of its listener
	err     error
}

// Main runs the tests of a package that has Java workers, and ends the JVM that they share. It gives the exit code.
func Main(m *testing.M) int {
	shared.ends = true
	code := m.Run()
	if shared.p == nil {
		return code
	}
	if err := errors.Join(shared.p.in.Close(), shared.p.wait()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		shared.p.kill()
		return max(code, 1)
	}
	return code
}

// JavaWorker runs a class of test/java with Apache Kafka's jars until the test ends, in a JVM that it shares.
func JavaWorker(t testing.TB, class string) *Worker {
	t.Helper()
	if !shared.ends {
		t.Fatal("a package with Java workers needs a TestMain that calls harness.Main")
	}
	java := newJava(t)
	shared.once.Do(func() { shared.err = startShared(java) })
	if shared.err != nil {
		t.Fatalf("start the JVM of all workers: %v", shared.err)
	}
	conn, err := net.Dial("tcp", shared.address)
	if err != nil {
		t.Fatalf("%v\n%s", err, &shared.p.errs)
	}
	if _, err := fmt.Fprintln(conn, class); err != nil {
		t.Fatal(err)
	}
	w := newWorker(shared.p, class, inputOf{conn.(*net.TCPConn)})
	var reading sync.WaitGroup
	reading.Go(func() { w.read(conn) })
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
		close(w.stop)
		conn.Close()
		reading.Wait()
		w.p.logIfFailed(t)
	})
	return w
}

// LoneJavaWorker is JavaWorker in a JVM of its own, which can be killed.
func LoneJavaWorker(t testing.TB, class string) *Worker {
	t.Helper()
	return LoneJavaWorkerAt(t, testservers.Place{}, class)
}

// LoneJavaWorkerAt is LoneJavaWorker elsewhere.
func LoneJavaWorkerAt(t testing.TB, place testservers.Place, class string) *Worker {
	t.Helper()
	j := newJava(t)
	return startWorker(t, place, class, j.program, j.args(javaHost, class)...)
}

// startShared starts the JVM and learns where it listens.
func startShared(j java) error {
	p, err := startProgram(testservers.Place{}, "the JVM of all workers", j.program, j.args(javaHost)...)
	if err != nil {
		return err
	}
	shared.p = p
	out := bufio.NewReader(p.out)
	port, err := out.ReadString('\n')
	go func() {
		_, _ = io.Copy(io.Discard, out) // nothing is to come
		close(p.read)
	}()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, &p.errs)
	}
	shared.address = net.JoinHostPort("127.0.0.1", port[:len(port)-1])
	return nil
}

// inputOf is the one direction of a connection.
type inputOf struct{ *net.TCPConn }

// Close ends that direction.
func (i inputOf) Close() error { return i.CloseWrite() }
