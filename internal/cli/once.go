package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// defaultPatience is the time without an answer, an acknowledgement or a record after which a command writes what it waits for.
const defaultPatience = 5 * time.Second

// once dials the cluster and runs a command that ends by itself. Timeout bounds both together.
func (c ClientConfig) once(ctx context.Context, s Streams, run func(context.Context, *kadm.Client) error) error {
	c.ApplyDefaults()
	if err := c.Locate(ctx); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var heard failures
	stop := c.reportSilence(s.Err, &heard)
	defer stop()
	client, err := c.dial(bounded, kgo.WithLogger(&heard))
	if err != nil {
		return err
	}
	admin := kadm.NewClient(client)
	defer admin.Close()
	admin.SetTimeoutMillis(int32(min(c.Timeout.Milliseconds(), 60_000)))
	if err := run(bounded, admin); err != nil {
		return c.late(err, &heard)
	}
	return nil
}

// late returns an error that names the agents if err is a time-out, and any other err as it is.
func (c ClientConfig) late(err error, heard *failures) error {
	var timeout interface{ Timeout() bool }
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		return err
	}
	return inWords(err, "no complete answer from %s for %s (--timeout): %s; `freshet status` names faulty parts of the cluster",
		strings.Join(c.Bootstrap, ","), durationText(c.Timeout), cmp.Or(heard.reason(), firstOf(err).Error()))
}

// reportSilence writes one line if the cluster has not answered for the patience of c. The returned function ends the wait and,
// with it, the client's debug logging. No line is written after it returns.
func (c ClientConfig) reportSilence(out io.Writer, heard *failures) (stop func()) {
	heard.listens.Store(true)
	done := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		timer := time.NewTimer(c.patience)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
			fmt.Fprintf(out, "freshet: no answer from %s for %s; still trying: %s\n",
				strings.Join(c.Bootstrap, ","), durationText(c.patience), cmp.Or(heard.reason(), "an agent that has no control plane, etcd or object store, or whose virtual cluster is suspended, keeps requests waiting"))
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		wait.Wait()
		heard.listens.Store(false)
	})
}

// failures keeps the newest failure of a client, which retries without a word. The failure is in the client's log alone, at the
// level of debugging, which is on only while listens is true. It implements kgo.Logger.
type failures struct {
	listens atomic.Bool
	mu      struct {
		sync.Mutex
		newest string
	}
}

// Level implements kgo.Logger.
func (f *failures) Level() kgo.LogLevel {
	if f.listens.Load() {
		return kgo.LogLevelDebug
	}
	return kgo.LogLevelNone
}

// Log implements kgo.Logger.
func (f *failures) Log(_ kgo.LogLevel, message string, fields ...any) {
	reason := ""
	for i := 0; i+1 < len(fields); i += 2 {
		switch value := fields[i+1].(type) {
		case error:
			if fields[i] == "err" && !isEnd(value) {
				reason = value.Error()
			}
		case string:
			if found := retried.FindStringSubmatch(value); message == "produced" && found != nil {
				reason = found[1]
			}
		}
	}
	if reason == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.newest = reason
}

// reason returns the newest failure, or "" if none is known.
func (f *failures) reason() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.newest
}

// isEnd reports whether an error only means that the command itself ended a request or the client.
func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, kgo.ErrClientClosed)
}
