package harness

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Main classes of Apache Kafka's command-line tools.
const (
	ConsoleProducer = "org.apache.kafka.tools.ConsoleProducer"
	ConsoleConsumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
	TopicCommand    = "org.apache.kafka.tools.TopicCommand"
)

// kafkaVersion is that of test/java/pom.xml.
const kafkaVersion = "kafka-4.3.1"

// Jars gives the directory of Apache Kafka's jars with all they depend on.
func Jars(t testing.TB) string {
	t.Helper()
	need(t, "java")
	return prepared(t, kafkaVersion, func(dir string) error {
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
	jars := Jars(t)
	base := []string{
		"-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(jars, "*") + string(os.PathListSeparator) + jars, class,
	}
	return runTo(t, in, out, need(t, "java"), append(base, args...)...)
}
