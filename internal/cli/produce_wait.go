package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// waitEvery is the time between two lines of `freshet produce` about records that are not acknowledged. The first line is due after
// the patience, or after twice that time if no reason is known.
const waitEvery = 30 * time.Second

// waiting reports that records are not acknowledged, and why. Its logger listens only while records wait.
type waiting struct {
	failures
	topic    string
	at       string // the addresses of agents
	patience time.Duration
	out      io.Writer

	// Of watch alone.
	acked  int
	since  time.Time // of the newest acknowledgement, or when the first record began to wait
	said   time.Time // when the newest line was written; zero if none
	named  string    // the reason in that line
	waited bool      // records waited when watch looked last
}

// retried finds the error in the client's line on an answered produce request, "t[0{retrying@5,1(CODE: text)}]".
var retried = regexp.MustCompile(`retrying@-?\d+,\d+\(([^)]*)`)

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
		ageText(waited), count(records, "record"), w.cause())
}

// reason returns the newest reason in the words of a user, "" if none is known.
func (w *waiting) reason() string {
	reason := w.failures.reason()
	if strings.HasPrefix(reason, kerr.KafkaStorageError.Message) {
		return fmt.Sprintf("an agent cannot store records of topic %q in the object store; its log names the cause", w.topic)
	}
	return reason
}

// cause returns the newest reason, or a line about the missing answer.
func (w *waiting) cause() string {
	return cmp.Or(w.reason(), "no answer came from "+w.at)
}
