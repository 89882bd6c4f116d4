package harness

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	requirements := filepath.Join(root(), "test", "python", "requirements.txt")
	content, err := os.ReadFile(requirements)
	if err != nil {
		t.Fatal(err)
	}
	python := need(t, "python3")
	venv := prepared(t, fmt.Sprintf("python-%x", sha256.Sum256(content))[:20], func(dir string) error {
		if out, err := exec.Command(python, "-m", "venv", dir).CombinedOutput(); err != nil {
			return fmt.Errorf("create venv (Debian has it in python3-venv): %w\n%s", err, out)
		}
		pip := exec.Command(filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--requirement", requirements)
		if out, err := pip.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	return filepath.Join(venv, "bin", "python")
}
