package compare

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Benchmarks and tests run the same programs.
func TestVersions_AreThoseOfTheTests(t *testing.T) {
	servers, err := os.ReadFile(filepath.Join("..", "..", "tools", "servers", "go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(servers), "github.com/versity/versitygw "+S3ServerVersion)
	tests, err := os.ReadFile(filepath.Join("..", "..", "test", "java", "pom.xml"))
	require.NoError(t, err)
	require.Contains(t, string(tests), "<artifactId>kafka"+kafkaScalaSuffix+"</artifactId>\n      <version>${kafka.version}</version>")
}

func TestFindJars_OfARelease(t *testing.T) {
	home := t.TempDir()
	_, err := findJars(t.Context(), home)
	require.ErrorContains(t, err, "no kafka_2.13-*.jar there: want the directory of an unpacked release")

	require.NoError(t, os.Mkdir(filepath.Join(home, "libs"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(home, "libs", "kafka_2.13-4.9.0.jar"), nil, 0o600))
	found, err := findJars(t.Context(), home)
	require.NoError(t, err)
	require.Equal(t, "4.9.0", found.version)
	require.Equal(t, []string{
		"-Dlog4j2.configurationFile=" + filepath.Join(home, "config", "log4j2.yaml"), "-cp", filepath.Join(home, "libs", "*"),
	}, found.options())
}

func TestFind_SaysWhatToInstall(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	_, err := findJars(t.Context(), "")
	require.ErrorIs(t, err, errNoMaven)
	_, _, err = findS3Server(t.Context(), "")
	require.ErrorIs(t, err, errNoS3Server)
	path, _, err := findS3Server(t.Context(), "/opt/versitygw")
	require.NoError(t, err)
	require.Equal(t, "/opt/versitygw", path)
}

// What was filled in half is filled again; what was filled whole is not.
func TestCached(t *testing.T) {
	base := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", base)
	broken := errors.New("broken off")
	fills := 0
	fill := func(err error) func(string) error {
		return func(dir string) error {
			fills++
			return errors.Join(err, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
		}
	}
	_, err := cached("thing", fill(broken))
	require.ErrorIs(t, err, broken)
	left, err := filepath.Glob(filepath.Join(base, "freshet", "bench", "*"))
	require.NoError(t, err)
	require.Empty(t, left)
	for range 2 {
		dir, err := cached("thing", fill(nil))
		require.NoError(t, err)
		require.FileExists(t, filepath.Join(dir, "x"))
	}
	require.Equal(t, 2, fills)
}

func TestKafka_Options(t *testing.T) {
	properties := kafkaProperties("127.0.0.1:1", "127.0.0.1:2", "/data")
	for _, want := range []string{"listeners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2\n", "log.dirs=/data\n", "controller.quorum.voters=1@127.0.0.1:2\n"} {
		require.Contains(t, properties, want)
	}
	options := strings.Join((&kafka{heap: 2 << 30}).jvm("/logs"), " ")
	require.Contains(t, options, "-Xms2048m -Xmx2048m ")
	require.Contains(t, options, "-Dkafka.logs.dir=/logs")
}
