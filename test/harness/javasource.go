package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/freshet-io/freshet/internal/testservers"
)

// JavaSourceProcess describes a program of one source file of test/java, such as spring/Spring.java, as a process of its own, not
// started. The pom.xml beside the file names its jars. options are for the JVM.
func JavaSourceProcess(t testing.TB, source string, options []string, args ...string) *testservers.Process {
	t.Helper()
	folder, class := filepath.Dir(source), strings.TrimSuffix(filepath.Base(source), ".java")
	j := plainJava(t, folder, "")
	classes := prepared(t, "classes-"+folder+"-"+hash(t, filepath.Join(folder, "pom.xml"), source), func(dir string) error {
		compiled := exec.Command(need(t, "javac"), "-proc:none", "-cp", j.path, "-d", dir, filepath.Join(root(), "test", "java", source))
		if out, err := compiled.CombinedOutput(); err != nil {
			return fmt.Errorf("compile %s: %w\n%s", source, err, out)
		}
		return nil
	})
	path := j.path + string(os.PathListSeparator) + classes
	return testservers.NewProcess(t, class, j.program, slices.Concat(j.options, options, []string{"-Xmx512m", "-cp", path, class}, args), nil)
}
