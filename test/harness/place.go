package harness

import (
	"testing"

	"github.com/freshet-io/freshet/internal/testservers"
)

// FreshetAt describes a command of the binary under test as a process elsewhere, not started.
func FreshetAt(t testing.TB, place testservers.Place, name string, args ...string) *testservers.Process {
	t.Helper()
	return testservers.NewProcessAt(t, place, name, Freshet(t), args, nil)
}

// KcatAt describes kcat as a process elsewhere, not started.
func KcatAt(t testing.TB, place testservers.Place, name string, args ...string) *testservers.Process {
	t.Helper()
	return testservers.NewProcessAt(t, place, name, need(t, "kcat"), append([]string{"-m", kcatPatience}, args...), nil)
}

// JavaAt describes a main class of Apache Kafka as a process elsewhere, not started.
func JavaAt(t testing.TB, place testservers.Place, name, class string, args ...string) *testservers.Process {
	t.Helper()
	j := newJava(t)
	return testservers.NewProcessAt(t, place, name, j.program, j.args(class, args...), nil)
}
