package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// waitPatience is the time without an acknowledgement after which `freshet produce` says that it waits; twice as long if
	// it has heard no reason yet.
	waitPatience = 5 * time.Second
	// waitEvery is the time between two such lines.
	waitEvery = 30 * time.Second
)

// waiting reports that records are not acknowledged, and why: the client retries without a word. The reason is in its log
// alone, at the level of debugging, which is on only while records wait. It implements kgo.Logger.
type waiting struct {
	topic    string
	patience time.Duration
	out      io.Writer

	listens atomic.Bool
	mu      struct {
		sync.Mutex
		reason string
	}

	// Of watch alone.
	acked  int
	since  time.Time // of the newest acknowledgement, or when the first record began to wait
	said   time.Time // when the newest line was written; zero if none
	named  string    // the reason in that line
	waited bool      // records waited when watch looked last
}

// Level implements kgo.Logger.
func (w *waiting) Level() kgo.LogLevel {
	if w.listens.Load() {
		return kgo.LogLevelDebug
	}
	return kgo.LogLevelNone
}

// retried finds the error in the client's line on an answered produce request, "t[0{retrying@5,1(CODE: text)}]".
var retried = regexp.MustCompile(`retrying@-?\d+,\d+\(([^)]*)`)

// Log implements kgo.Logger. It keeps the newest reason for a retry.
func (w *waiting) Log(_ kgo.LogLevel, message string, fields ...any) {
	reason := ""
	for i := 0; i+1 < len(fields); i += 2 {
		switch value := fields[i+1].(type) {
		case error:
			if fields[i] == "err" && !errors.Is(value, context.Canceled) {
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
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.reason = reason
}

// watch writes lines until ctx ends.
func (w *waiting) watch(ctx context.Context, p *producer) {
	tick := time.NewTicker(w.patience / 10)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			acked, _, _ := p.outcome()
			if line := w.note(now, acked, p.client.BufferedProduceRecords()); line != "" {
				fmt.Fprintln(w.out, line)
			}
		}
	}
}

// note takes how many records are acknowledged and how many wait. It returns a line to write, or "".
func (w *waiting) note(now time.Time, acked int, records int64) string {
	if acked != w.acked || records == 0 || !w.waited {
		resumed := !w.said.IsZero() && acked != w.acked
		w.acked, w.since, w.waited = acked, now, records > 0
		w.listens.Store(false)
		if resumed {
			w.said, w.named = time.Time{}, ""
			return "records are acknowledged again"
		}
		return ""
	}
	waited := now.Sub(w.since)
	if waited >= w.patience/5 {
		w.listens.Store(true)
	}
	reason := w.reason()
	patience, news := w.patience, w.named == "" && reason != ""
	if reason == "" {
		patience *= 2
	}
	if waited < patience || !w.said.IsZero() && !news && now.Sub(w.said) < waitEvery {
		return ""
	}
	w.said, w.named = now, reason
	return fmt.Sprintf("no record was acknowledged for %s (%s in flight); still trying: %s",
		waited.Round(time.Second), count(records, "record"), cmp.Or(reason, "no answer came"))
}

// reason returns the newest reason in the words of a user, "" if none is known.
func (w *waiting) reason() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.HasPrefix(w.mu.reason, kerr.KafkaStorageError.Message) {
		return fmt.Sprintf("an agent cannot store records of topic %q in the object store; its log names the cause", w.topic)
	}
	return w.mu.reason
}
