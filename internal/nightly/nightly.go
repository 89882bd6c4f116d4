// Package nightly leaves slow, random and timed tests to `make nightly`.
package nightly

import (
	"os"
	"testing"
)

// Variable is the environment variable that `make nightly` sets to 1.
const Variable = "FRESHET_NIGHTLY"

// On reports whether `make nightly` runs the tests.
func On() bool { return os.Getenv(Variable) == "1" }

// Only skips the test except in `make nightly`. The reason says what makes the test unfit for each commit.
func Only(t testing.TB, reason string) {
	t.Helper()
	if !On() {
		t.Skip("only in make nightly: " + reason)
	}
}
