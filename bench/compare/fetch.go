package compare

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/freshet-io/freshet/kafkaproto"
)

// Versions that are fetched.
const (
	KafkaVersion     = kafkaproto.KafkaVersion
	S3ServerVersion  = "v1.8.0" // as in tools/servers
	s3ServerPackage  = "github.com/versity/versitygw/cmd/versitygw"
	s3ServerProgram  = "versitygw"
	kafkaScalaSuffix = "_2.13"
)

// Errors of what is missing on the machine, with what to do.
var (
	errNoMaven = errors.New("mvn, which fetches Apache Kafka from Maven Central, is not installed; " +
		"install it, or name an unpacked release with --kafka-home")
	errNoS3Server = errors.New(s3ServerProgram + " is not installed, and go, which fetches it, is not either; " +
		"name the program with --s3-server")
)

// jars are Apache Kafka's, with all they depend on.
type jars struct {
	dir     string
	version string
	extra   []string // options of the JVM
}

// options are the JVM's for finding the classes.
func (j jars) options() []string {
	return append(j.extra, "-cp", filepath.Join(j.dir, "*"))
}

// findJars gives those of a release unpacked at home or, if that is empty, of KafkaVersion from the user's cache, where
// Maven puts them the first time.
func findJars(ctx context.Context, home string) (jars, error) {
	if home != "" {
		return releaseJars(home)
	}
	dir, err := cached("kafka-"+KafkaVersion, func(dir string) error { return fetchJars(ctx, dir) })
	return jars{dir: dir, version: KafkaVersion, extra: []string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}}, err
}

func releaseJars(home string) (jars, error) {
	j := jars{dir: filepath.Join(home, "libs"), extra: []string{"-Dlog4j2.configurationFile=" + filepath.Join(home, "config", "log4j2.yaml")}}
	found, err := filepath.Glob(filepath.Join(j.dir, "kafka"+kafkaScalaSuffix+"-*.jar"))
	if err != nil || len(found) == 0 {
		return j, fmt.Errorf("%s: no kafka%s-*.jar there: want the directory of an unpacked release of Apache Kafka", j.dir, kafkaScalaSuffix)
	}
	j.version = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), "kafka"+kafkaScalaSuffix+"-"), ".jar")
	return j, nil
}

//go:embed pom.xml
var pom string

func fetchJars(ctx context.Context, dir string) error {
	maven, err := exec.LookPath("mvn")
	if err != nil {
		return errNoMaven
	}
	project, err := os.MkdirTemp("", "freshet-kafka-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(project)
	text := strings.NewReplacer("KAFKA_VERSION", KafkaVersion, "SCALA_SUFFIX", kafkaScalaSuffix).Replace(pom)
	if err := os.WriteFile(filepath.Join(project, "pom.xml"), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write pom.xml: %w", err)
	}
	cmd := exec.CommandContext(ctx, maven, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+dir)
	cmd.Dir = project
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch Apache Kafka %s: %w: %s", KafkaVersion, err, out)
	}
	return nil
}

// findS3Server gives the program named, else the one in the search path, else S3ServerVersion from the user's cache, where
// Go puts it the first time. The second result describes it.
func findS3Server(ctx context.Context, program string) (path, version string, err error) {
	if program == "" {
		program, _ = exec.LookPath(s3ServerProgram) // else fetched
	}
	if program != "" {
		return program, s3ServerProgram, nil
	}
	dir, err := cached(s3ServerProgram+"-"+S3ServerVersion, func(dir string) error { return fetchS3Server(ctx, dir) })
	return filepath.Join(dir, s3ServerProgram), s3ServerProgram + " " + S3ServerVersion, err
}

func fetchS3Server(ctx context.Context, dir string) error {
	tool, err := exec.LookPath("go")
	if err != nil {
		return errNoS3Server
	}
	cmd := exec.CommandContext(ctx, tool, "install", s3ServerPackage+"@"+S3ServerVersion)
	cmd.Env = append(os.Environ(), "GOBIN="+dir)
	cmd.Dir = dir // in no module
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch %s %s: %w: %s", s3ServerProgram, S3ServerVersion, err, out)
	}
	return nil
}

// cached gives a directory of the user's cache, filled the first time. What was filled in half is not used.
func cached(name string, fill func(dir string) error) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache: %w", err)
	}
	base = filepath.Join(base, "freshet", "bench")
	dir := filepath.Join(base, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", fmt.Errorf("make cache: %w", err)
	}
	half, err := os.MkdirTemp(base, name+".half-")
	if err != nil {
		return "", fmt.Errorf("make cache: %w", err)
	}
	defer os.RemoveAll(half)
	if err := fill(half); err != nil {
		return "", err
	}
	if err := os.Rename(half, dir); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("keep %s: %w", name, err)
	}
	return dir, nil
}
