package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// ResetOffsets writes the plan of other offsets for a group, and commits them if that is asked for and the group has no members.
// As kafka-consumer-groups.sh does, it only writes the plan without --execute.
func ResetOffsets(ctx context.Context, c GroupConfig, s Streams) error {
	to, err := parsePosition(c.To, "--to", time.Now())
	if err != nil {
		return err
	}
	return c.once(ctx, s, func(ctx context.Context, admin *kadm.Client) error { return c.reset(ctx, admin, to, s) })
}

func (c GroupConfig) reset(ctx context.Context, admin *kadm.Client, to position, s Streams) error {
	group := c.Groups[0]
	committed, err := admin.FetchOffsets(ctx, group)
	if err != nil {
		return explainGroup(group, failed("fetch offsets", err))
	}
	topics := c.Topics
	if len(topics) == 0 {
		if topics = committed.Offsets().TopicsSet().Topics(); len(topics) == 0 {
			return fmt.Errorf("group %q has no offsets; name topics with --topic", group)
		}
	}
	offsets, err := c.target(ctx, admin, to, topics)
	if err != nil {
		return err
	}
	if c.Execute {
		if err := admin.CommitAllOffsets(ctx, group, offsets); err != nil {
			return explainReset(group, err)
		}
		return writeReset(s, committed, offsets)
	}
	err = writeReset(s, committed, offsets)
	fmt.Fprintln(s.Err, "freshet: nothing was committed: repeat the command with --execute to commit these offsets")
	return err
}

// target returns the offsets to commit: the position in each partition, between the first and the end offset.
func (c GroupConfig) target(ctx context.Context, admin *kadm.Client, to position, topics []string) (kadm.Offsets, error) {
	starts, ends, err := c.bounds(ctx, admin, topics...)
	if err = errors.Join(err, listed(starts), listed(ends)); err != nil {
		return nil, err
	}
	at := starts
	switch to.kind {
	case atLatest:
		at = ends
	case atTime:
		at, err = admin.ListOffsetsAfterMilli(ctx, to.value, topics...)
		if err = errors.Join(firstOf(err), listed(at)); err != nil {
			return nil, fmt.Errorf("list offsets by time: %w", err)
		}
	case atEarliest, atOffset:
	}
	for _, p := range c.Partitions {
		has := func(topic string) bool { _, ok := ends.Lookup(topic, p); return ok }
		if !slices.ContainsFunc(topics, has) {
			return nil, fmt.Errorf("there is no partition %d in %s", p, strings.Join(topics, ", "))
		}
	}
	offsets := kadm.Offsets{}
	at.Each(func(o kadm.ListedOffset) {
		if len(c.Partitions) > 0 && !slices.Contains(c.Partitions, o.Partition) {
			return
		}
		offset := o.Offset
		if to.kind == atOffset {
			start, _ := starts.Lookup(o.Topic, o.Partition)
			end, _ := ends.Lookup(o.Topic, o.Partition)
			offset = min(max(to.value, start.Offset), end.Offset)
		}
		offsets.AddOffset(o.Topic, o.Partition, offset, -1)
	})
	return offsets, nil
}

// listed returns the errors of partitions.
func listed(l kadm.ListedOffsets) error {
	var faults []error
	l.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			faults = append(faults, explain(o.Topic, o.Err))
		}
	})
	return errors.Join(faults...)
}

// explainReset: a commit from outside of a group is refused as one by an unknown member while there are members.
func explainReset(group string, err error) error {
	if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.RebalanceInProgress) {
		return explainGroup(group, fmt.Errorf("%w: %w", kerr.NonEmptyGroup, err))
	}
	return explainGroup(group, failed("commit offsets", err))
}

// resetOffset is the change of one partition's committed offset.
type resetOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Before    int64  `json:"before"` // -1 if there was none
	After     int64  `json:"after"`
}

func writeReset(s Streams, before kadm.OffsetResponses, after kadm.Offsets) error {
	changes := []resetOffset{}
	for _, o := range after.Sorted() {
		c := resetOffset{Topic: o.Topic, Partition: o.Partition, Before: -1, After: o.At}
		if b, ok := before.Lookup(o.Topic, o.Partition); ok {
			c.Before = b.At
		}
		changes = append(changes, c)
	}
	if s.json() {
		return s.WriteJSON(changes)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "topic\tpartition\tbefore\tafter")
	for _, c := range changes {
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\n", c.Topic, c.Partition, known(c.Before), c.After)
	}
	return w.Flush()
}
