package cost

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one measured or helping program of a run.
type process struct {
	cmd   *exec.Cmd
	pid   int
	lines *bufio.Scanner
}

// startRole starts this same executable as one of the benchmark's helpers and waits for the line with its address.
func startRole(ctx context.Context, name string, role any) (*process, string, error) {
	spec, err := json.Marshal(role)
	if err != nil {
		return nil, "", fmt.Errorf("encode %s: %w", name, err)
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, "", fmt.Errorf("find own executable: %w", err)
	}
	p, err := start(ctx, exec.Command(exe, "bench", "cost-role", name, string(spec)))
	if err != nil {
		return nil, "", err
	}
	line, err := p.line()
	if err != nil {
		p.stop()
		return nil, "", fmt.Errorf("start %s: %w", name, err)
	}
	return p, line, nil
}

func start(ctx context.Context, cmd *exec.Cmd) (*process, error) {
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p := &process{cmd: cmd, pid: cmd.Process.Pid, lines: bufio.NewScanner(out)}
	context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	return p, nil
}

func (p *process) line() (string, error) {
	if !p.lines.Scan() {
		return "", errors.Join(io.ErrUnexpectedEOF, p.lines.Err())
	}
	return p.lines.Text(), nil
}

// stop ends the process, kindly first.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	force := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer force.Stop()
	_ = p.cmd.Wait()
}

// cpu gives the CPU seconds the process used so far, user and system, from /proc (10 ms steps).
func (p *process) cpu() (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return 0, fmt.Errorf("read CPU time (Linux only): %w", err)
	}
	return parseCPU(string(stat))
}

// ticksPerSecond is USER_HZ, which Linux fixes at 100 for user space.
const ticksPerSecond = 100

// parseCPU takes utime and stime, fields 14 and 15 of proc(5) stat; the name in field 2 may hold anything.
func parseCPU(stat string) (float64, error) {
	_, rest, ok := strings.Cut(stat[max(0, strings.LastIndexByte(stat, ')')):], " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, fmt.Errorf("unexpected form of /proc stat: %q", stat)
	}
	user, err1 := strconv.ParseUint(fields[11], 10, 64)
	system, err2 := strconv.ParseUint(fields[12], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, fmt.Errorf("parse /proc stat: %w", err)
	}
	return float64(user+system) / ticksPerSecond, nil
}

// peakMemory gives the largest resident size of the process so far, in bytes.
func (p *process) peakMemory() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return 0, fmt.Errorf("read memory (Linux only): %w", err)
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib << 10, nil
		}
	}
	return 0, errors.New("no VmHWM in /proc status")
}
