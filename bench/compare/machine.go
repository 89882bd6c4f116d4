package compare

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// machine describes where this runs, as the kernel tells: processor, cores, memory, kernel.
func machine() string {
	parts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if model := valueOf("/proc/cpuinfo", "model name"); model != "" {
		parts = append(parts, model)
	}
	var kib int64
	if _, err := fmt.Sscanf(valueOf("/proc/meminfo", "MemTotal"), "%d kB", &kib); err == nil {
		parts = append(parts, fmt.Sprintf("%d GiB of memory", (kib+1<<19)>>20))
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		parts = append(parts, unix.ByteSliceToString(name.Sysname[:])+" "+unix.ByteSliceToString(name.Release[:]))
	}
	return strings.Join(parts, ", ")
}

// valueOf gives the first value of a key in a file of lines "key : value"; empty if there is none.
func valueOf(path, key string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// javaVersion gives the first line that `java -version` says, which goes to standard error.
func javaVersion(java string) (string, error) {
	out, err := exec.Command(java, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s -version: %w: %s", java, err, out)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(strings.ReplaceAll(line, `"`, "")), nil
}
