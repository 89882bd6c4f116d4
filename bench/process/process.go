// Package process starts the programs of a benchmark and reads from the kernel what each of them costs. Linux only.
package process

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

// Process is one measured or helping program of a run.
type Process struct {
	cmd   *exec.Cmd
	pid   int
	lines *bufio.Scanner
	done  chan struct{} // closed when a process of StartLogged has ended; nil for others
}

// StartRole starts this same executable as one of a benchmark's helpers, with the arguments "COMMAND NAME SPEC",
// and waits for the line with its address or result.
func StartRole(ctx context.Context, command, name string, role any) (*Process, string, error) {
	spec, err := json.Marshal(role)
	if err != nil {
		return nil, "", fmt.Errorf("encode %s: %w", name, err)
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, "", fmt.Errorf("find own executable: %w", err)
	}
	p, err := Start(ctx, exec.Command(exe, command, name, string(spec)))
	if err != nil {
		return nil, "", err
	}
	line, err := p.Line()
	if err != nil {
		p.Stop()
		return nil, "", fmt.Errorf("start %s: %w", name, err)
	}
	return p, line, nil
}

// Start starts a program, whose standard output is read by Line. It is killed when ctx ends.
func Start(ctx context.Context, cmd *exec.Cmd) (*Process, error) {
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p := &Process{cmd: cmd, pid: cmd.Process.Pid, lines: bufio.NewScanner(out)}
	context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	return p, nil
}

// StartLogged starts a program with all output to a file, which is made or added to. It is killed when ctx ends.
func StartLogged(ctx context.Context, cmd *exec.Cmd, logFile string) (*Process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", cmd.Path, err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p := &Process{cmd: cmd, pid: cmd.Process.Pid, done: make(chan struct{})}
	context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // how it ended is in its log
	}()
	return p, nil
}

// Done is closed when a process of StartLogged has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// PID is the process id.
func (p *Process) PID() int { return p.pid }

// Running is a process that somebody else started: it can be read, not stopped.
func Running(pid int) *Process { return &Process{pid: pid} }

// Line waits for the next line of standard output.
func (p *Process) Line() (string, error) {
	if !p.lines.Scan() {
		return "", errors.Join(io.ErrUnexpectedEOF, p.lines.Err())
	}
	return p.lines.Text(), nil
}

// Interrupt asks the process to end and does not wait.
func (p *Process) Interrupt() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }

// Stop ends the process, kindly first.
func (p *Process) Stop() {
	p.Interrupt()
	force := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer force.Stop()
	if p.done != nil {
		<-p.done
		return
	}
	_ = p.cmd.Wait()
}

// CPU gives the CPU seconds the process used so far, user and system, from /proc (10 ms steps).
func (p *Process) CPU() (float64, error) {
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

// PeakMemory gives the largest resident size of the process so far, in bytes.
func (p *Process) PeakMemory() (int64, error) { return p.status("VmHWM") }

// Memory gives the resident size of the process, in bytes.
func (p *Process) Memory() (int64, error) { return p.status("VmRSS") }

// status reads a size from proc(5) status.
func (p *Process) status(name string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return 0, fmt.Errorf("read memory (Linux only): %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("parse %s of /proc status: %w", name, err)
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("no %s in /proc status", name)
}
