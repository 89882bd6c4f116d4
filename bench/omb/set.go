package omb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/freshet-io/freshet/bench/worker"
)

// Planned is one run of a set.
type Planned struct {
	Name     string // of the workload's file, without folder and suffix
	Driver   Driver
	Workload Workload
}

// Stem gives what a file's workload is called in names of results.
func Stem(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// Set is several runs, one after the other.
type Set struct {
	Runs      []Planned
	Dir       string        // for result files; made if it is not there; default: the working directory
	Bootstrap string        // if set, instead of the drivers' bootstrap.servers
	Worker    worker.Worker // default: a local one
	Out       io.Writer     // of the console lines; default: none
	JSON      io.Writer     // gets the results too, one JSON document after the other; default: none
	Progress  io.Writer     // of a progress bar, a terminal; default: none
	// Written, if set, is called when a result was written to path.
	Written func(path string, p Planned, o *Outcome) error
}

// Run carries out all runs, also when some fail; the error has all failures. It ends early with the context, and what was
// measured by then is written as well.
func (s Set) Run(ctx context.Context) error {
	if s.Out == nil {
		s.Out = io.Discard
	}
	if s.Dir == "" {
		s.Dir = "."
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fmt.Errorf("make directory for results: %w", err)
	}
	var errs []error
	for _, p := range s.Runs {
		fmt.Fprintf(s.Out, "--------------- WORKLOAD : %s --- DRIVER : %s---------------\n", p.Workload.Name, p.Driver.Name)
		outcome, err := Run(ctx, Config{
			Driver: p.Driver, Workload: p.Workload, Bootstrap: s.Bootstrap, Worker: s.Worker, Out: s.Out, Progress: s.Progress,
		})
		if outcome != nil {
			err = errors.Join(err, s.keep(p, outcome))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("workload %s with driver %s: %w", p.Name, p.Driver.Name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// keep writes a result where it is asked for.
func (s Set) keep(p Planned, o *Outcome) error {
	path := filepath.Join(s.Dir, FileName(p.Name, p.Driver.Name, time.Now()))
	fmt.Fprintf(s.Out, "Writing test result into %s\n", path)
	err := o.Result.WriteFile(path)
	if err == nil && s.Written != nil {
		err = s.Written(path, p, o)
	}
	if s.JSON == nil {
		return err
	}
	content, encoded := o.Result.Encode()
	if encoded == nil {
		_, encoded = s.JSON.Write(content)
	}
	return errors.Join(err, encoded)
}
