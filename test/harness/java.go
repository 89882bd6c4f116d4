package harness

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/freshet-io/freshet/internal/testservers"
)

// Main classes of Apache Kafka's command-line tools.
const (
	ConsoleProducer = "org.apache.kafka.tools.ConsoleProducer"
	ConsoleConsumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
	TopicCommand    = "org.apache.kafka.tools.TopicCommand"
)

// Jars gives the directory of Apache Kafka's jars with all they depend on.
func Jars(t testing.TB) string {
	t.Helper()
	need(t, "java")
	pom, err := os.ReadFile(filepath.Join(root(), "test", "java", "pom.xml"))
	if err != nil {
		t.Fatal(err)
	}
	return prepared(t, fmt.Sprintf("kafka-%x", sha256.Sum256(pom))[:20], func(dir string) error {
		maven := need(t, "mvn")
		cmd := exec.Command(maven, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+dir)
		cmd.Dir = filepath.Join(root(), "test", "java")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
}

// Java runs a main class of Apache Kafka, with output to out.
func Java(t testing.TB, in io.Reader, out io.Writer, class string, args ...string) {
	t.Helper()
	r := TryJava(t, in, out, class, args...)
	ok(t, class+" "+strings.Join(args, " "), r)
}

// TryJava is Java for runs that may fail.
func TryJava(t testing.TB, in io.Reader, out io.Writer, class string, args ...string) Result {
	t.Helper()
	return runTo(t, in, out, need(t, "java"), append(javaArgs(Jars(t), class), args...)...)
}

// JavaProcess describes a main class of Apache Kafka as a process of its own, not started.
func JavaProcess(t testing.TB, name string, ready func() error, class string, args ...string) *testservers.Process {
	t.Helper()
	return testservers.NewProcess(t, name, need(t, "java"), append(javaArgs(Jars(t), class), args...), ready)
}

// javaArgs are the arguments of a small JVM that starts quickly. Directories of classes may follow.
func javaArgs(jars, class string, classes ...string) []string {
	path := append([]string{filepath.Join(jars, "*"), jars}, classes...)
	return []string{
		"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", strings.Join(path, string(os.PathListSeparator)), class,
	}
}
