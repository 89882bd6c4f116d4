package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/bench/verify/oracle"
	"github.com/freshet-io/freshet/internal/wait"
)

const (
	pollRecords = 2000            // most records of one poll
	quiet       = 2 * time.Second // a poll that brings nothing for so long is looked at
	passShare   = 3               // passes rest so many times as long as they read
	leastRest   = 5 * time.Second
)

// follow is the first reader: it reads everything once, as it comes, until ctx ends.
func (t *topic) follow(ctx context.Context) error {
	return t.read(ctx, t.first, func() bool { return false })
}

// read feeds a reader, each partition from where it stands, until done says so or ctx ends. done is asked after each
// poll.
func (t *topic) read(ctx context.Context, r *oracle.Reader, done func() bool) error {
	for ctx.Err() == nil {
		ok, err := t.readOnce(ctx, r, done)
		if ok || err != nil {
			return err
		}
		_ = wait.For(ctx, time.Second)
	}
	return nil
}

// readOnce is read with one client; not ok if that cannot go on.
func (t *topic) readOnce(ctx context.Context, r *oracle.Reader, done func() bool) (ok bool, err error) {
	from := make(map[int32]kgo.Offset)
	for p := range int32(t.cfg.Partitions) {
		from[p] = kgo.NewOffset().At(r.Position(p))
	}
	client, err := t.client(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t.name: from}), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		isolation(r.View), kgo.KeepControlRecords(),
	)
	if err != nil {
		return false, err
	}
	defer client.Close()
	for ctx.Err() == nil && !done() {
		known := t.known(r.View)
		asked := time.Now()
		poll, cancel := context.WithTimeout(ctx, quiet)
		fetches := client.PollRecords(poll, pollRecords)
		cancel()
		fetches.EachRecord(func(record *kgo.Record) { r.Read(record.Partition, seen(record)) })
		if t.broken(r, fetches, known, asked) {
			return false, nil
		}
	}
	return true, nil
}

// known is what is known of all ends now.
func (t *topic) known(v oracle.View) []oracle.Known {
	known := make([]oracle.Known, t.cfg.Partitions)
	for p := range known {
		known[p] = t.history.Known(int32(p), v)
	}
	return known
}

// broken tells whether a client has given a partition up.
func (t *topic) broken(r *oracle.Reader, fetches kgo.Fetches, known []oracle.Known, asked time.Time) (is bool) {
	fetches.EachError(func(_ string, partition int32, err error) {
		var loss *kgo.ErrDataLoss
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
			return
		case errors.Is(err, kerr.OffsetOutOfRange) && r.Position(partition) <= known[partition].End():
			t.history.OutOfRange(partition, known[partition], r.Position(partition), "a fetch of "+r.Name, asked)
		case errors.As(err, &loss):
			t.history.Told(partition, known[partition], loss.ResetTo, "the end of an epoch, to "+r.Name, asked)
		}
		t.failed("fetch", err)
		is = true
	})
	return is
}

func seen(r *kgo.Record) oracle.Seen {
	return oracle.Seen{Offset: r.Offset, Key: r.Key, Value: r.Value, Control: r.Attrs.IsControl()}
}

// passes reads everything again and again, of either view in turn, until ctx ends.
func (t *topic) passes(ctx context.Context) error {
	for n := 1; ctx.Err() == nil; n++ {
		began := time.Now()
		view := oracle.Uncommitted
		if t.txn && n%2 == 1 {
			view = oracle.Committed
		}
		if err := t.pass(ctx, n, view, false); err != nil {
			return err
		}
		_ = wait.For(ctx, max(leastRest, passShare*time.Since(began)))
	}
	return nil
}

// pass reads from the start to the end there is now. The last one, when nothing is produced any more, must find all.
func (t *topic) pass(ctx context.Context, n int, view oracle.View, last bool) error {
	ends, err := t.ends(ctx, view)
	if err != nil {
		if last {
			t.stuck("pass %d of %s records: %v", n, view, err)
		}
		return nil // the run ended, or the brokers are away: ends has said so
	}
	r := t.history.NewReader(oracle.ReaderConfig{Name: fmt.Sprintf("pass %d", n), View: view})
	began := time.Now()
	if err := t.read(ctx, r, func() bool { return t.reached(r, ends) || !last && time.Since(began) > t.cfg.Duration }); err != nil {
		return err
	}
	complete := t.reached(r, ends)
	if last && !complete {
		t.stuck("pass %d of %s records did not reach the ends %v within %v", n, view, ends, t.cfg.Patience)
	}
	if complete {
		t.completed.Add(1)
	}
	r.Judge(last)
	return nil
}

// reached tells whether a reader has all up to the ends. Behind the last stable offset of an open transaction there may
// be records of others that were aborted: nothing is shown of them, so the end of a reader of committed records is where
// nothing comes any more; its last pass is made when none is open, and ends with a marker.
func (t *topic) reached(r *oracle.Reader, ends map[int32]int64) bool {
	for p, end := range ends {
		if r.Position(p) < end {
			return false
		}
	}
	return true
}

func (t *topic) stuck(format string, args ...any) {
	t.findings.Add(oracle.Finding{Class: oracle.Stuck, Topic: t.name, Partition: -1, Offset: -1, Evidence: fmt.Sprintf(format, args...)})
}
