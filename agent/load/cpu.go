package load

import (
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// processCPU is the CPU time that this process has used so far.
func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // it has no errors for RUSAGE_SELF
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// processCores is how many CPUs this process may use: GOMAXPROCS, or less by the quota of its cgroup. Go sets GOMAXPROCS
// by that too, but rounds it up, to 2 at least.
func processCores() float64 {
	procs := float64(runtime.GOMAXPROCS(0))
	if n, ok := quota(os.DirFS("/")); ok {
		return min(procs, n)
	}
	return procs
}

// Where Linux has cgroups mounted, and what version 1 calls those of CPU.
const (
	cgroups    = "sys/fs/cgroup"
	controller = "cpu"
)

// quota is the CPU quota of this process's cgroup and of those that it is in, in CPUs; false if there is none. A
// container may see its cgroup by the name that it has outside, which does not exist inside: what does not is passed over.
func quota(root fs.FS) (cpus float64, ok bool) {
	file, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, false // not Linux
	}
	for line := range strings.Lines(string(file)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // id:controllers:path
		if len(fields) != 3 {
			continue
		}
		read, mount := readMax, cgroups
		if fields[1] != "" {
			if !slices.Contains(strings.Split(fields[1], ","), controller) {
				continue
			}
			read, mount = readCFS, path.Join(cgroups, controller)
		}
		for dir := path.Clean("/" + fields[2]); ; dir = path.Dir(dir) {
			if n, found := read(root, path.Join(mount, dir)); found && (!ok || n < cpus) {
				cpus, ok = n, true
			}
			if dir == "/" {
				break
			}
		}
	}
	return cpus, ok
}

// readMax reads version 2: "max 100000" or "50000 100000", the quota in each period, microseconds.
func readMax(root fs.FS, dir string) (cpus float64, ok bool) {
	file, err := fs.ReadFile(root, path.Join(dir, "cpu.max"))
	if err != nil {
		return 0, false
	}
	limit, period, _ := strings.Cut(strings.TrimSpace(string(file)), " ")
	return ratio(limit, period)
}

// readCFS reads version 1, where a quota of -1 is none.
func readCFS(root fs.FS, dir string) (cpus float64, ok bool) {
	limit, err := fs.ReadFile(root, path.Join(dir, "cpu.cfs_quota_us"))
	if err != nil {
		return 0, false
	}
	period, err := fs.ReadFile(root, path.Join(dir, "cpu.cfs_period_us"))
	if err != nil {
		return 0, false
	}
	return ratio(strings.TrimSpace(string(limit)), strings.TrimSpace(string(period)))
}

func ratio(limit, period string) (float64, bool) {
	l, err := strconv.ParseInt(limit, 10, 64)
	if err != nil || l <= 0 {
		return 0, false // "max"
	}
	p, err := strconv.ParseInt(period, 10, 64)
	if err != nil || p <= 0 {
		return 0, false
	}
	return float64(l) / float64(p), true
}
