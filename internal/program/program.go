// Package program runs the command lines of this project's programs: flags, environment and file become settings, errors become
// lines with their remedy, and signals end commands.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/internal/cli"
)

// Exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// Program is a program with its commands, and what it takes from the operating system, so that tests can replace that.
type Program struct {
	Name, Short, Long string
	Version           string
	Commands          func(Program) []*cobra.Command // all but version

	// SharesVariables turns off the warning about unknown FRESHET_ variables, for a program that shares the prefix with another one.
	SharesVariables bool
	// Arguments rewrites a command line before it is parsed. nil means no change.
	Arguments func([]string) []string
	// Explain rewrites an error for the user. nil means no change.
	Explain func(error) error

	Streams cli.Streams
	Environ func() []string
}

// ExitError ends the process with an exit code of its own.
type ExitError struct {
	Err  error
	Code int
}

func (e *ExitError) Error() string { return e.Err.Error() }
func (e *ExitError) Unwrap() error { return e.Err }

// Main runs the process's command line with an environment until its end or a signal, and ends the process.
func (p Program) Main(environ func() []string) {
	p.Streams, p.Environ = cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, environ
	ctx, stop := untilSignal(context.Background(), p.Name, os.Stderr)
	code := p.Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// Run runs one command line and returns the exit code.
func (p Program) Run(ctx context.Context, args []string) int {
	root := p.Root()
	if p.Arguments != nil {
		args = p.Arguments(args)
	}
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	if p.Explain != nil {
		err = p.Explain(err)
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(p.Streams.Err, "%s: %s%s\n", p.Name, line, origins(command.Flags(), line))
	}
	var usage *cli.UsageError
	if errors.As(err, &usage) {
		fmt.Fprintf(p.Streams.Err, "see %s --help\n", command.CommandPath())
		return ExitUsage
	}
	var exit *ExitError
	if errors.As(err, &exit) {
		return exit.Code
	}
	return ExitFailed
}
