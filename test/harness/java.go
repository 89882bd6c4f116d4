package harness

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/kafkaproto"
)

// PreviousKafka is the release of Apache Kafka before the reference. A part of the differential tests runs against it, and
// Connect and MirrorMaker are of it: not all of their artifacts are published for kafkaproto.KafkaVersion.
const PreviousKafka = "4.3.1"

// KafkaVersion returns the release of Apache Kafka that tests run: kafkaproto.KafkaVersion, or another one that the
// environment variable FRESHET_KAFKA names (make kafka-next).
func KafkaVersion() string { return cmp.Or(os.Getenv("FRESHET_KAFKA"), kafkaproto.KafkaVersion) }

// Main classes of Apache Kafka's command-line tools.
const (
	ConsoleProducer = "org.apache.kafka.tools.ConsoleProducer"
	ConsoleConsumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
	TopicCommand    = "org.apache.kafka.tools.TopicCommand"
)

// java is what JVMs of the tests are started with.
type java struct {
	program string
	path    string // of classes: Apache Kafka's jars with all they depend on, and what test/java is compiled to
	options []string
	storage string // formatted log directory of a broker that has not started yet
}

// newJava returns a JVM with the jars of KafkaVersion. On first use it fetches, compiles and prepares them.
func newJava(t testing.TB) java {
	t.Helper()
	j, version := plainJava(t, "", KafkaVersion()), KafkaVersion()
	classes := prepared(t, "classes-"+version+"-"+hash(t, "pom.xml", "*.java"), func(dir string) error {
		return compile(need(t, "javac"), need(t, "jar"), j.path, dir)
	})
	j.path += string(os.PathListSeparator) + filepath.Join(classes, jarName)
	trained := prepared(t, "trained-"+version+"-"+hash(t, "pom.xml", "*.java", installed(t, j.program)), func(dir string) error {
		return j.train(dir, address(t), address(t))
	})
	j.options = append(j.options, "-XX:SharedArchiveFile="+filepath.Join(trained, archiveName))
	j.storage = filepath.Join(trained, storageName)
	return j
}

// plainJava returns a JVM with the jars that the pom.xml of a folder of test/java names, of a release of Apache Kafka.
func plainJava(t testing.TB, folder, version string) java {
	t.Helper()
	jars := prepared(t, "kafka-"+folder+version+"-"+hash(t, filepath.Join(folder, "pom.xml")), func(dir string) error {
		return maven(need(t, "mvn"), filepath.Join(root(), "test", "java", folder), version, dir)
	})
	return java{program: need(t, "java"), path: filepath.Join(jars, "*"), options: []string{
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.cacheOutputStream=true",
	}}
}

// hash tells apart what files of test/java, or others by absolute names, hold. Names may be patterns.
func hash(t testing.TB, names ...string) string {
	t.Helper()
	h := sha256.New()
	for _, name := range names {
		if !filepath.IsAbs(name) {
			name = filepath.Join(root(), "test", "java", name)
		}
		files, err := filepath.Glob(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			content, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = h.Write(content) // a hash takes everything
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:14]
}

// installed is the file of a Java installation that tells its version.
func installed(t testing.TB, program string) string {
	t.Helper()
	path, err := filepath.EvalSymlinks(program)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(filepath.Dir(path), "..", "release")
}

// maven fetches the jars that the pom.xml of a folder names, of a release of Apache Kafka.
func maven(program, folder, version, dir string) error {
	cmd := exec.Command(program, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime",
		"-Dkafka.version="+version, "-DoutputDirectory="+dir)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// jarName is what test/java is compiled to: of directories of classes JVMs keep no archive.
const jarName = "clients.jar"

func compile(javac, jar, path, dir string) error {
	sources, err := filepath.Glob(filepath.Join(root(), "test", "java", "*.java"))
	if err != nil {
		return err
	}
	classes := filepath.Join(dir, "classes")
	args := []string{"-proc:none", "-Xlint:all", "-Werror", "-cp", path, "-d", classes}
	if out, err := exec.Command(javac, append(args, sources...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("compile test/java: %w\n%s", err, out)
	}
	pack := exec.Command(jar, "--create", "--file", filepath.Join(dir, jarName), "-C", classes, ".")
	if out, err := pack.CombinedOutput(); err != nil {
		return fmt.Errorf("pack test/java: %w\n%s", err, out)
	}
	return nil
}

// args are the arguments of a small JVM that starts quickly.
func (j java) args(class string, args ...string) []string {
	return slices.Concat(j.options, []string{j.memory(class), "-cp", j.path, class}, args)
}

// memory bounds the heap: the JVM of all workers may hold records of several tests, of 10 MiB and more.
func (j java) memory(class string) string {
	if class == javaHost {
		return "-Xmx1g"
	}
	return "-Xmx256m"
}

// Java runs a main class of Apache Kafka, with output to out.
func Java(t testing.TB, in io.Reader, out io.Writer, class string, args ...string) {
	t.Helper()
	j := newJava(t)
	ok(t, class+" "+strings.Join(args, " "), runTo(t, in, out, j.program, j.args(class, args...)...))
}

// JavaProcess describes a main class of Apache Kafka as a process of its own, not started.
func JavaProcess(t testing.TB, name string, ready func() error, class string, args ...string) *testservers.Process {
	t.Helper()
	j := newJava(t)
	return testservers.NewProcess(t, name, j.program, j.args(class, args...), ready)
}

// ConnectProcess describes a main class of Kafka Connect or MirrorMaker of PreviousKafka as a process of its own, not started.
func ConnectProcess(t testing.TB, name string, ready func() error, class string, args ...string) *testservers.Process {
	t.Helper()
	j := plainJava(t, "connect", PreviousKafka)
	return testservers.NewProcess(t, name, j.program, j.args(class, args...), ready)
}
