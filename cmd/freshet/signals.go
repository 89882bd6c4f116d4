package main

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

// untilSignal gives a context that ends at the first SIGTERM or SIGINT, so that what runs drains. A second one, later
// than oneSignal, ends the process at once. stop gives the signals back.
func untilSignal(parent context.Context, stderr io.Writer) (ctx context.Context, stop func()) {
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
					fmt.Fprintf(stderr, "freshet: %s again, not waiting any longer\n", s)
					os.Exit(exitFailed)
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
