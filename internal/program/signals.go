package program

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// oneSignal is how close together signals count as one: supervisors (timeout, a terminal's process group) send the
// same one twice.
const oneSignal = time.Second

// untilSignal returns a context that ends at the first SIGTERM or SIGINT, so that the command drains. A second signal, later
// than oneSignal, ends the process at once. stop restores the default handling of signals.
func untilSignal(parent context.Context, name string, stderr io.Writer) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case s := <-signals:
				switch {
				case first.IsZero():
					first = time.Now()
					cancel()
				case time.Since(first) > oneSignal:
					fmt.Fprintf(stderr, "%s: %s again, not waiting any longer\n", name, s)
					os.Exit(ExitFailed)
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel()
	}
}
