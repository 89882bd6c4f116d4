package harness

import (
	"io"
	"path/filepath"
	"testing"
)

// Python runs a script of test/python with librdkafka's Python client installed, with output to out.
func Python(t testing.TB, in io.Reader, out io.Writer, script string, args ...string) {
	t.Helper()
	path := filepath.Join(root(), "test", "python", script)
	ok(t, script, runTo(t, in, out, pythonProgram(t), append([]string{path}, args...)...))
}

// pythonProgram gives a Python that has librdkafka's client.
func pythonProgram(t testing.TB) string {
	t.Helper()
	return PythonWith(t, filepath.Join(root(), "test", "python", "requirements.txt"))
}
