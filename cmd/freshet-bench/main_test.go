package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/freshet-io/freshet/internal/cli"
)

// TestMain lets the test binary stand in for freshet-bench: benchmarks start their own executable as helpers.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasSuffix(os.Args[1], "-role") {
		main()
	}
	os.Exit(m.Run())
}

// command runs one command line as a shell would, and returns its output.
func command(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := bench()
	p.Streams, p.Environ = cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, func() []string { return environ }
	code = p.Run(t.Context(), args)
	return code, out.String(), errs.String()
}
