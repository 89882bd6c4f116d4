package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// evidence is text in a file of the tree.
type evidence struct{ file, text string }

// elsewhere has the commands of pages that other tests or CI run, each with the text that runs it. A command that is only run by hand
// has its definition.
var elsewhere = map[string]evidence{
	"make test":        {".ci/run", "make test 2>&1"},
	"make check":       {"Makefile", "\ncheck: "},                     // by hand: CI runs its parts in make lint and make test
	"make cluster":     {"Makefile", "\n\tdeploy/local/cluster.sh\n"}, // TestTutorial runs that
	"make build-bench": {"Makefile", "\nbuild-bench: build"},          // all other bench targets begin with it
	"make lostzone":    {"Makefile", "\nlostzone: build"},             // by hand: 8 minutes
	"make contrib":     {"Makefile", "\ncontrib: "},                   // by hand: needs Docker or Podman
	"make kube":        {"Makefile", "\ne2e-kube: kube"},
	"make e2e-kube":    {"Makefile", "\ne2e-kube: kube"}, // by hand: root on Debian, 10 minutes
	"go test ./test/ecosystem -args -against kafka": {"test/ecosystem/broker_test.go", `flag.String("against", "freshet"`}, // by hand: Apache Kafka instead of Freshet
	"bin/freshet status":                            {"test/faults/status_test.go", `harness.Operate(t, c, "status")`},
	"freshet-bench run":                             {"cmd/freshet-bench/run_test.go", `runLine(t, "run", "-d", driver`},
	"bin/freshet-bench verify --transactions":       {"cmd/freshet-bench/verify_test.go", `[]string{"verify"}`},
}

// TestReadme runs the commands of README.md in their order, beside the process of make dev, and once more after kill -9 as the page says.
func TestReadme(t *testing.T) {
	t.Parallel()
	harness.Need(t, "kcat")
	page := commandsOf(t, "README.md")
	require.Equal(t, "make dev", page[0])
	requireEvidence(t, evidence{"Makefile", "\ndev: build ## build and run everything in one process, data in ./data\n\t$(BIN)/freshet dev\n"})
	dir := checkout(t)
	dev := harness.NewDev(t, "--data-dir", filepath.Join(dir, "data")) // the later flag counts: ./data of the commands below
	dev.Launch()
	dev.AwaitReady()
	inPage := strings.NewReplacer("localhost:9092", dev.Bootstrap, "<command>", "agent")
	runAll := func() string {
		var out strings.Builder
		for _, command := range page[1:] {
			if _, ok := elsewhere[command]; ok {
				continue
			}
			shell := exec.CommandContext(t.Context(), "sh", "-uc", inPage.Replace(command)) //nolint:gosec // a command of the page
			shell.Dir = dir
			got, err := shell.CombinedOutput()
			t.Logf("%s\n%s", command, got)
			require.NoError(t, err, command)
			out.Write(got)
		}
		return out.String()
	}
	out := runAll()
	require.Contains(t, out, numbers(1, 10))
	require.Contains(t, out, `topic "numbers" with 1 partitions`)
	require.Contains(t, out, "--bucket string", "the help of a command")
	dev.Kill()
	dev.Restart()
	require.Contains(t, runAll(), numbers(1, 10)+numbers(1, 10))
}

// TestPages_CommandsAreRun fails if a page shows a command that no test runs. TestTutorial runs the blocks of the tutorial.
func TestPages_CommandsAreRun(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	for _, page := range []string{"docs/tutorial.md", "docs/works-with.md"} {
		for _, command := range commandsOf(t, page) {
			shown[command] = true
			_, listed := elsewhere[command]
			if !listed && (page != "docs/tutorial.md" || !inTutorial(command)) {
				t.Errorf("%s: no test runs %q: add it to TestTutorial, or to elsewhere with the evidence for it", page, command)
			}
		}
	}
	for _, command := range commandsOf(t, "README.md") {
		shown[command] = true
	}
	for command, at := range elsewhere {
		require.True(t, shown[command], "no page shows %q: remove it from elsewhere", command)
		requireEvidence(t, at)
	}
}

// inTutorial reports whether TestTutorial runs a command between the tutorial's blocks.
func inTutorial(command string) bool { return strings.HasPrefix(command, "kcat ") }

var (
	inlineCode = regexp.MustCompile("`([^`]+)`")
	// program begins the inline code that is a command, as opposed to a name.
	program = regexp.MustCompile(`^(make|go|kcat|curl|freshet-bench|bin/\S+|deploy/\S+) `)
)

// commandsOf returns the commands of a page outside of fences: indented lines, and inline code that begins with a program.
func commandsOf(t *testing.T, page string) (commands []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", page))
	require.NoError(t, err)
	fenced := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		command, indented := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced:
		case indented:
			commands = append(commands, command)
		default:
			for _, code := range inlineCode.FindAllStringSubmatch(line, -1) {
				if program.MatchString(code[1]) {
					commands = append(commands, code[1])
				}
			}
		}
	}
	require.NotEmpty(t, commands, page)
	return commands
}

func requireEvidence(t *testing.T, at evidence) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", at.file))
	require.NoError(t, err)
	require.Contains(t, string(text), at.text, at.file)
}

// checkout returns a directory like a checkout in which make build has run, so that bin/freshet is a command there.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	link(t, dir, "bin/freshet", harness.Freshet(t))
	return dir
}

// link makes a symbolic link below dir.
func link(t *testing.T, dir, name, target string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
	require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
}
