package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ConsumeConfig has the settings of `freshet consume`.
type ConsumeConfig struct {
	ClientConfig
	Topic         string
	Group         string  // consumer group to join; "" reads without a group
	From          string  // earliest, latest, an offset, or a time (RFC 3339, @ and ms since the epoch, a duration before now); default latest. With a group: in partitions without a committed offset
	Partitions    []int32 // empty means all, or the partitions that the group assigns
	Count         int     // stop after so many records; 0: no limit
	ExitAtEnd     bool    // stop at the ends that partitions have at the start; with a group: at their assignment, once it assigns no more
	PrintKey      bool
	KeySeparator  string // between key and value; default a tab
	Format        string // overrides PrintKey and KeySeparator; franz-go's record format, as in kcat
	ReadCommitted bool   // leave out records of open and aborted transactions
	Verbose       bool
}

// ApplyDefaults fills in fields that are not set.
func (c *ConsumeConfig) ApplyDefaults() {
	c.ClientConfig.ApplyDefaults()
	if c.From == "" {
		c.From = "latest"
	}
	if c.KeySeparator == "" {
		c.KeySeparator = "\t"
	}
	if c.Format == "" {
		c.Format = "%v\n"
		if c.PrintKey {
			c.Format = "%k" + escapeFormat(c.KeySeparator) + "%v\n"
		}
	}
}

// Maximum times that fetches at the end of their partitions wait. kgo sends a fetch as soon as it knows the first of a broker's
// partitions, and the other partitions wait for its answer.
const (
	fetchMaxWait = 500 * time.Millisecond // the Java consumer's fetch.max.wait.ms
	endMaxWait   = 100 * time.Millisecond // with ExitAtEnd
)

func (c *ConsumeConfig) fetchMaxWait() time.Duration {
	if c.ExitAtEnd {
		return endMaxWait
	}
	return fetchMaxWait
}

// escapeFormat makes text stand for itself in a record format.
func escapeFormat(s string) string {
	return strings.NewReplacer("%", "%%", `\`, `\\`).Replace(s)
}

// Consume writes the topic's records to the output until Count or ExitAtEnd stops it, or ctx ends. None of these is an error.
func Consume(ctx context.Context, c ConsumeConfig, s Streams) error {
	formatted := c.Format != "" || c.PrintKey
	c.ApplyDefaults()
	c.persists = true
	from, err := parsePosition(c.From, "--from", time.Now())
	if err != nil {
		return err
	}
	if c.Group != "" && (len(c.Partitions) > 0 || from.kind == atOffset) {
		return usagef("--group reads the partitions that the group gives, from the offsets that it has committed: " +
			"it goes neither with --partition nor with an offset as --from")
	}
	format, err := kgo.NewRecordFormatter(c.Format)
	if err != nil {
		return usagef("--format: %v", err)
	}
	if s.json() && formatted {
		return usagef("--format and --print-key go without --output json, which writes every field of a record")
	}
	isolation := kgo.ReadUncommitted()
	if c.ReadCommitted {
		isolation = kgo.ReadCommitted()
	}
	k := &consumer{
		config: c, contact: &contact{}, from: from, format: format, json: s.json(), out: bufio.NewWriterSize(s.Out, 256<<10), errs: s.Err,
		ends: ends{topic: c.Topic, committed: c.ReadCommitted, open: make(map[int32]*end)},
	}
	opts := []kgo.Opt{
		kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords(), kgo.KeepRetryableFetchErrors(),
		// An offset given by number must be there; other positions follow the log when it is trimmed under them.
		kgo.ConsumeResetOffset(from.reset()),
		kgo.FetchMaxWait(c.fetchMaxWait()),
	}
	if c.Group != "" {
		opts = append(opts, k.groupOptions(from)...)
	}
	if err := c.Locate(ctx); err != nil {
		return err
	}
	k.config = c
	var heard failures
	stopReport := c.reportSilence(s.Err, &heard)
	defer stopReport()
	if k.client, err = c.dial(ctx, append(opts, kgo.WithLogger(&heard), kgo.WithHooks(k.contact))...); err != nil {
		return err
	}
	defer k.client.CloseAllowingRebalance()
	err = k.assign(ctx)
	stopReport()
	if err != nil {
		return c.late(err, &heard)
	}
	err = k.run(ctx)
	if flushed := k.flush(); err == nil {
		err = flushed
	}
	if c.Verbose {
		fmt.Fprintln(s.Err, count(int64(k.flushed), "record"))
	}
	if err != nil {
		return err
	}
	return k.commit(ctx)
}

// consumer writes records of assigned partitions.
type consumer struct {
	config  ConsumeConfig
	from    position
	client  *kgo.Client
	format  *kgo.RecordFormatter
	json    bool // instead of format
	out     *bufio.Writer
	errs    io.Writer
	line    []byte
	written int           // to out
	flushed int           // of these, records that the output took
	seen    []*kgo.Record // written since the output was flushed, or nothing to write; with a group
	ends    ends          // with ExitAtEnd
	stall   stall
	contact *contact
	began   time.Time // of run
	told    bool      // the line about the reason to wait is written, or a record came

	reading  int       // partitions
	assigned bool      // the group has given partitions, perhaps none, and no rebalance has begun since
	failed   error     // the first error of given
	ended    time.Time // when the partitions given had no more records; zero if they have some
}

// flush passes the written records on to the output.
func (k *consumer) flush() error {
	if err := k.out.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	k.flushed = k.written
	return nil
}

// assign starts consuming the partitions asked for, or joins the group.
func (k *consumer) assign(ctx context.Context) error {
	topic := k.config.Topic
	admin := kadm.NewClient(k.client)
	meta, err := admin.Metadata(ctx, topic)
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	if err := meta.Topics[topic].Err; err != nil {
		return explain(topic, err)
	}
	if k.config.Group != "" {
		k.client.AddConsumeTopics(topic)
		return nil
	}
	all := meta.Topics[topic].Partitions.Numbers()
	wanted := k.config.Partitions
	if len(wanted) == 0 {
		wanted = all
	}
	for _, p := range wanted {
		if !slices.Contains(all, p) {
			return fmt.Errorf("topic %q has no partition %d; it has %s, numbered from 0", topic, p, count(int64(len(all)), "partition"))
		}
	}
	if k.config.ExitAtEnd {
		if err := k.findEnds(ctx, admin, wanted, k.from); err != nil {
			return err
		}
	}
	assignment := make(map[int32]kgo.Offset, len(wanted))
	for _, p := range wanted {
		if !k.config.ExitAtEnd {
			assignment[p] = k.from.offset()
		} else if end := k.ends.open[p]; end != nil {
			assignment[p] = kgo.NewOffset().At(end.next)
		}
	}
	k.reading = len(assignment)
	k.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: assignment})
	return nil
}

// findEnds notes the end of each partition, except partitions without a record between start and end.
func (k *consumer) findEnds(ctx context.Context, admin *kadm.Client, partitions []int32, from position) error {
	topic := k.config.Topic
	list := admin.ListEndOffsets
	if k.config.ReadCommitted {
		list = admin.ListCommittedOffsets
	}
	var listed, starts kadm.ListedOffsets
	err := k.config.patiently(ctx, func(ctx context.Context) (err error) {
		if listed, err = list(ctx, topic); err == nil {
			err = listed.Error()
		}
		if err == nil {
			starts, err = k.startOffsets(ctx, admin, from)
		}
		return err
	})
	if err != nil {
		return explain(topic, err)
	}
	for _, p := range partitions {
		last, _ := listed.Lookup(topic, p)
		start, _ := starts.Lookup(topic, p)
		if start.Offset >= 0 && start.Offset < last.Offset {
			k.ends.open[p] = &end{next: start.Offset, until: last.Offset}
		}
	}
	return nil
}

// startOffsets resolves where each partition begins. A start past the end, or none (-1), leaves nothing to read.
func (k *consumer) startOffsets(ctx context.Context, admin *kadm.Client, from position) (kadm.ListedOffsets, error) {
	topic := k.config.Topic
	var offsets kadm.ListedOffsets
	var err error
	switch from.kind {
	case atEarliest, atOffset:
		offsets, err = admin.ListStartOffsets(ctx, topic)
	case atLatest:
		offsets, err = admin.ListEndOffsets(ctx, topic)
	case atTime:
		offsets, err = admin.ListOffsetsAfterMilli(ctx, from.value, topic)
	}
	if err != nil {
		return nil, err
	}
	if from.kind == atOffset {
		for p, o := range offsets[topic] {
			o.Offset = from.value
			offsets[topic][p] = o
		}
	}
	if k.config.Group != "" {
		if err := k.committed(ctx, admin, offsets); err != nil {
			return nil, err
		}
	}
	return offsets, offsets.Error()
}

// run reads until done. With a group it reads the fields of given and lost only between a poll and AllowRebalance, where kgo
// holds both off. The newest records are then committed before their partition goes to another member.
func (k *consumer) run(ctx context.Context) error {
	if k.config.Group == "" && k.done() {
		return nil // there is nothing between the starts and the ends
	}
	k.began = time.Now()
	for {
		fetches := k.poll(ctx)
		select {
		case <-ctx.Done():
			return nil
		default:
		}
		err, over := k.take(ctx, fetches), false
		if err == nil && k.done() {
			over, err = k.over(ctx)
		}
		k.tellWait(time.Now())
		// If ctx has ended, the next poll stops the consumer. A failed output fails again when it is flushed.
		if over || err != nil && ctx.Err() == nil {
			return err
		}
		k.client.AllowRebalance()
	}
}

// take writes the polled records.
func (k *consumer) take(ctx context.Context, fetches kgo.Fetches) error {
	if k.failed != nil {
		return explain(k.config.Topic, k.failed)
	}
	if k.config.ExitAtEnd && len(fetches) == 0 {
		if err := k.ends.look(ctx, k.client); err != nil {
			return explain(k.config.Topic, err)
		}
		return nil
	}
	if err := k.faults(fetches); err != nil {
		return err
	}
	for it := fetches.RecordIter(); !it.Done() && !k.done(); {
		if err := k.write(it.Next()); err != nil {
			return err
		}
	}
	if err := k.flush(); err != nil {
		return err
	}
	k.client.MarkCommitRecords(k.seen...)
	clear(k.seen)
	k.seen = k.seen[:0]
	return nil
}

// faults returns the first error that the client does not retry. A line on standard error names a retried one if nothing else
// came for Timeout, which is also the time that ExitAtEnd waits.
func (k *consumer) faults(fetches kgo.Fetches) error {
	var failed, again error
	fetches.EachError(func(_ string, partition int32, err error) {
		told := fmt.Errorf("partition %d: %w", partition, explain(k.config.Topic, err))
		var session *kgo.ErrGroupSession // which the client begins anew
		if errors.As(err, &session) {
			told = fmt.Errorf("group %s: %w", k.config.Group, session.Err)
		}
		switch {
		case kerr.IsRetriable(err) || session != nil:
			again = told
		case failed == nil:
			failed = told
		}
	})
	if failed != nil {
		return failed
	}
	if !fetches.Empty() {
		k.stall = stall{}
	}
	if again != nil {
		k.stall.newest = again
	}
	err := k.stall.note(again, time.Now(), k.config.Timeout)
	if err == nil || k.config.ExitAtEnd {
		return err
	}
	fmt.Fprintf(k.errs, "freshet: %v, it is tried again\n", err)
	return nil
}

// stall is a time in which there were errors alone.
type stall struct {
	since  time.Time
	newest error
}

// note takes an error, or nil, and returns the error once there was nothing else for limit. The time begins anew then.
func (s *stall) note(err error, now time.Time, limit time.Duration) error {
	switch {
	case err == nil:
		return nil
	case s.since.IsZero():
		s.since = now
		return nil
	case now.Sub(s.since) < limit:
		return nil
	}
	s.since = now
	return fmt.Errorf("nothing could be read for %s: %w", durationText(limit), err)
}

// poll waits for records. It returns without any after endPause with ExitAtEnd, else when a line about the reason may be due. kgo may
// return no fetches when partitions go while it waits, and holds no rebalance off then (Client.PollRecords): poll repeats the call.
func (k *consumer) poll(ctx context.Context) kgo.Fetches {
	pause := k.config.patience
	switch {
	case k.config.ExitAtEnd:
		pause = endPause
	case !k.told:
		pause = max(time.Millisecond, time.Until(k.began.Add(k.config.patience)))
	}
	ctx, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	var fetches kgo.Fetches
	for len(fetches) == 0 {
		fetches = k.client.PollFetches(ctx)
	}
	if err := fetches.Err0(); err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return fetches
}

// full reports whether Count records were written.
func (k *consumer) full() bool { return k.config.Count > 0 && k.written >= k.config.Count }

// done reports whether there is nothing more to write, unless the group gives more partitions.
func (k *consumer) done() bool {
	waits := k.config.Group != "" && !k.assigned
	return k.full() || k.config.ExitAtEnd && len(k.ends.open) == 0 && !waits
}

func (k *consumer) write(r *kgo.Record) error {
	if k.config.ExitAtEnd && !k.ends.saw(r.Partition, r.Offset) {
		return nil // came after it started
	}
	if k.config.Group != "" {
		k.seen = append(k.seen, r)
	}
	if r.Attrs.IsControl() {
		return nil
	}
	var err error
	if k.json {
		k.line, err = appendJSON(k.line[:0], r)
	} else {
		k.line = k.format.AppendRecord(k.line[:0], r)
	}
	if err != nil {
		return err
	}
	if _, err := k.out.Write(k.line); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	k.written++
	return nil
}
