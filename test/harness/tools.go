package harness

import (
	"strings"
	"testing"
)

// Tools runs Apache Kafka's command-line tools against one cluster, one after the other in one JVM: a JVM for each
// takes longer to start than the tool does to work.
type Tools struct {
	bootstrap string
	w         *Worker
}

// ToolResult is how a tool ended.
type ToolResult struct {
	Code int
	Out  string // standard output
	All  string // standard output and standard error, as they came
}

// StartTools starts the JVM; it ends with the test.
func StartTools(t testing.TB, bootstrap string) *Tools {
	t.Helper()
	return &Tools{bootstrap: bootstrap, w: JavaWorker(t, "Tools")}
}

// Try runs a tool by its main class.
func (k *Tools) Try(t testing.TB, class string, args ...string) (r ToolResult) {
	t.Helper()
	return k.TryPlain(t, class, append([]string{"--bootstrap-server", k.bootstrap}, args...)...)
}

// TryPlain is Try for tools that want their --bootstrap-server elsewhere than in front.
func (k *Tools) TryPlain(t testing.TB, class string, args ...string) (r ToolResult) {
	t.Helper()
	if err := k.w.Call(t, map[string]any{"tool": class, "args": args}, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Run gives the standard output of a tool that ends well.
func (k *Tools) Run(t testing.TB, class string, args ...string) string {
	t.Helper()
	r := k.Try(t, class, args...)
	if r.Code != 0 {
		t.Fatalf("%s %s: exit code %d\n%s", class, strings.Join(args, " "), r.Code, r.All)
	}
	return r.Out
}
