package matrix

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
)

var golden = flag.Bool("golden", false, "write the table into docs/clients.md")

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// outcome is the line that a program prints for a check.
type outcome struct {
	Check   string
	OK      bool
	None    bool
	Detail  string
	Seconds float64
}

// TestMatrix runs every client and compares what it could do with the table.
func TestMatrix(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t)
	runAll(t, dev.Bootstrap)
}

// TestMatrix_Kafka runs every client against Apache Kafka, whose outcomes are the same.
func TestMatrix_Kafka(t *testing.T) {
	if os.Getenv("FRESHET_MATRIX_KAFKA") == "" {
		t.Skip("FRESHET_MATRIX_KAFKA=1 runs the clients against Apache Kafka too; make clients does")
	}
	kafka := harness.StartKafka(t)
	runAll(t, kafka.Bootstrap)
}

func runAll(t *testing.T, bootstrap string) {
	t.Helper()
	var mu sync.Mutex
	got := map[string]string{}
	t.Cleanup(func() { t.Logf("clients against %s:\n%s", bootstrap, report(got)) })
	admin := admin(t, bootstrap)
	for i, c := range clients {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			prefix := fmt.Sprint("m", i)
			makeTopics(t, admin, prefix)
			outcomes := run(t, c, bootstrap, prefix)
			for _, check := range checks {
				o, ok := outcomes[check]
				require.True(t, ok, "%s reports no %s", c, check)
				mu.Lock()
				got[c.String()+" "+check] = cell(o)
				mu.Unlock()
				if !o.OK {
					t.Errorf("%s: %s", check, o.Detail)
				}
				require.Equal(t, c.none[check] != "", o.None, "%s: whether the library has it", check)
			}
		})
	}
}

func cell(o outcome) string {
	switch {
	case o.None:
		return "–"
	case o.OK:
		return "ok"
	}
	return "differs"
}

// report renders what was found, a line for each client.
func report(got map[string]string) string {
	var b strings.Builder
	for _, c := range clients {
		fmt.Fprintf(&b, "%-38s", c)
		for _, check := range checks {
			fmt.Fprintf(&b, " %s=%s", check, got[c.String()+" "+check])
		}
		b.WriteString("\n")
	}
	return b.String()
}

func admin(t *testing.T, bootstrap string) *kadm.Client {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return kadm.NewClient(c)
}

// makeTopics makes the topics that every program uses.
func makeTopics(t *testing.T, admin *kadm.Client, prefix string) {
	t.Helper()
	for name, partitions := range map[string]int32{"records": 5, "shared": 4, "regex-a": 2, "regex-b": 2, "transactions": 1} {
		_, err := admin.CreateTopic(t.Context(), partitions, 1, nil, prefix+"-"+name)
		require.NoError(t, err)
	}
}

// run runs the program of a client and returns its outcomes by check.
func run(t *testing.T, c client, bootstrap, prefix string) map[string]outcome {
	t.Helper()
	if c.name == "kcat" {
		return kcat(t, bootstrap, prefix)
	}
	program, args := command(t, c)
	r := harness.Program(t, program, append(args, bootstrap, prefix)...)
	outcomes := map[string]outcome{}
	for line := range strings.Lines(r.Out) {
		var o outcome
		require.NoError(t, json.Unmarshal([]byte(line), &o), "%s\n%s", line, r.Err)
		outcomes[o.Check] = o
	}
	if r.Code != 0 || t.Failed() {
		t.Errorf("exit code %d\n%s", r.Code, r.Err)
	}
	return outcomes
}

// command returns the program of a client and its first arguments. What it needs is installed first.
func command(t *testing.T, c client) (program string, args []string) {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	at := func(elements ...string) string { return filepath.Join(append([]string{here}, elements...)...) }
	switch folder, _, _ := strings.Cut(c.pinFile, "/"); folder {
	case "python":
		script := map[string]string{"confluent-kafka": "confluent.py", "kafka-python": "kafkapython.py", "aiokafka": "aio.py"}[c.name]
		return harness.PythonWith(t, at(c.pinFile)), []string{"-B", at("python", script)}
	case "node":
		script := map[string]string{"kafkajs": "kafkajs.js", "@confluentinc/kafka-javascript": "librdkafka.js"}[c.name]
		return "env", []string{"NODE_PATH=" + harness.NodeModules(t, at("node")), "node", at("node", script)}
	case "golang":
		return harness.GoProgram(t, at("golang")), []string{c.name}
	default:
		classes := harness.JavaClient(t, at("java"), c.version)
		return "java", []string{
			"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", classes, "Matrix",
		}
	}
}

// TestTable_IsTheOneInTheDocs compares the table with docs/clients.md, and the versions with what package managers are
// told to install.
func TestTable_IsTheOneInTheDocs(t *testing.T) {
	t.Parallel()
	for _, c := range clients {
		if c.pin != "" {
			content, err := os.ReadFile(c.pinFile)
			require.NoError(t, err)
			require.Contains(t, string(content), c.pin)
		}
		for check := range c.none {
			require.Contains(t, checks, check)
		}
	}
	const page, begin, end = "../../docs/clients.md", "<!-- The table of test/matrix: `make clients-table` writes it. -->\n", "<!-- End of the table. -->\n"
	content, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, ok := bytes.Cut(content, []byte(begin))
	require.True(t, ok)
	shown, after, ok := bytes.Cut(rest, []byte(end))
	require.True(t, ok)
	if *golden {
		whole := bytes.Join([][]byte{before, []byte(begin), []byte(table()), []byte(end), after}, nil)
		require.NoError(t, os.WriteFile(page, whole, 0o644))
		return
	}
	require.Equal(t, table(), string(shown), "go test ./test/matrix -run TestTable -golden writes it anew")
}
