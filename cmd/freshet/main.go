// Command freshet is all of Freshet in one binary: a Kafka-compatible broker whose only storage is an object store.
// `freshet dev` runs everything in one process; `freshet agent` and `freshet controlplane` are its parts for a real
// set-up; `freshet topic`, `produce` and `consume` are a small client. This package turns flags, environment and file
// into the configuration of the parts and runs them; it has no behaviour of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/freshet-io/freshet/internal/cli"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	p := process{
		streams: cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr},
		environ: os.Environ,
	}
	ctx, stop := untilSignal(context.Background(), os.Stderr)
	code := p.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// process is what commands take from the operating system, so that tests can stand in for it.
type process struct {
	streams cli.Streams
	environ func() []string
}

// run runs one command line and gives the exit code.
func (p process) run(ctx context.Context, args []string) int {
	root := newRoot(p)
	root.SetArgs(spreadLists(args))
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	err = nameListener(err)
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(p.streams.Err, "freshet: %s%s\n", line, origins(command.Flags(), line))
	}
	var usage *cli.UsageError
	if errors.As(err, &usage) {
		fmt.Fprintf(p.streams.Err, "see %s --help\n", command.CommandPath())
		return exitUsage
	}
	var coded *codedError
	if errors.As(err, &coded) {
		return coded.code
	}
	return exitFailed
}
