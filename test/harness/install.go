package harness

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// PythonWith returns a Python that has what a requirements file names.
func PythonWith(t testing.TB, requirements string) string {
	t.Helper()
	python := need(t, "python3")
	venv := prepared(t, "python-"+digest(t, requirements), func(dir string) error {
		if out, err := exec.Command(python, "-m", "venv", dir).CombinedOutput(); err != nil {
			return fmt.Errorf("create venv (Debian has it in python3-venv): %w\n%s", err, out)
		}
		pip := exec.Command(filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--requirement", requirements)
		return output(pip)
	})
	return filepath.Join(venv, "bin", "python")
}

// NodeModules returns a directory that holds what a folder's package-lock.json names. librdkafka's binding is compiled,
// since its prebuilt binary is in no package, and linked with the libraries of the system.
func NodeModules(t testing.TB, folder string) string {
	t.Helper()
	node, npm := need(t, "node"), need(t, "npm")
	lock := filepath.Join(folder, "package-lock.json")
	version := "node-" + digest(t, lock, installedNode(t, node))
	if exists("/usr/include/zstd.h") {
		version += "-zstd" // librdkafka leaves out codecs without a header
	}
	return filepath.Join(prepared(t, version, func(dir string) error {
		for _, name := range []string{"package.json", "package-lock.json"} {
			content, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
				return err
			}
		}
		cmd := exec.Command(npm, "ci", "--no-audit", "--no-fund")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CKJS_LINKING=dynamic")
		if prefix := filepath.Dir(filepath.Dir(node)); exists(filepath.Join(prefix, "include", "node", "node.h")) {
			cmd.Env = append(cmd.Env, "npm_config_nodedir="+prefix) // or they are fetched from elsewhere
		}
		return output(cmd)
	}), "node_modules")
}

// installedNode returns a file that changes with the version of Node.js, for whose interface bindings are compiled.
func installedNode(t testing.TB, node string) string {
	t.Helper()
	path, err := filepath.EvalSymlinks(node)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// GoProgram builds a main package that is a module of its own.
func GoProgram(t testing.TB, folder string) string {
	t.Helper()
	sources, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	sources = append(sources, filepath.Join(folder, "go.sum"))
	return filepath.Join(prepared(t, "go-"+digest(t, sources...), func(dir string) error {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "program"), ".")
		cmd.Dir = folder
		return output(cmd)
	}), "program")
}

// JavaClient compiles a folder's one class against the Kafka client of a version, which its pom.xml takes as
// kafka.version, and returns the path of classes.
func JavaClient(t testing.TB, folder, version string) string {
	t.Helper()
	pom := filepath.Join(folder, "pom.xml")
	jars := prepared(t, "kafka-client-"+version+"-"+digest(t, pom), func(dir string) error {
		cmd := exec.Command(need(t, "mvn"), "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime",
			"-Dkafka.version="+version, "-DoutputDirectory="+dir)
		cmd.Dir = folder
		return output(cmd)
	})
	sources, err := filepath.Glob(filepath.Join(folder, "*.java"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(jars, "*")
	classes := prepared(t, "kafka-client-classes-"+version+"-"+digest(t, append(sources, pom)...), func(dir string) error {
		return output(exec.Command(need(t, "javac"), append([]string{"-proc:none", "-cp", path, "-d", dir}, sources...)...))
	})
	return path + string(os.PathListSeparator) + classes
}

// Program runs a client to its end, whatever its exit code.
func Program(t testing.TB, program string, args ...string) Result {
	t.Helper()
	return run(t, nil, need(t, program), args...)
}

// digest tells apart what files hold.
func digest(t testing.TB, files ...string) string {
	t.Helper()
	h := sha256.New()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = h.Write(content) // a hash takes everything
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:13]
}

// output runs a command; its error has what the command printed.
func output(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, out)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}
