package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// stored is the size of a topic or a partition, and the time of its newest record. A nil field is unknown.
type stored struct {
	Bytes  *int64 `json:"bytes"`
	Newest *int64 `json:"newest_timestamp"` // ms since the epoch; -1 if there is no record
}

// add adds a partition to a topic. A sum with an unknown part is unknown.
func (s *stored) add(p stored) {
	s.Bytes = join(s.Bytes, p.Bytes, func(a, b int64) int64 { return a + b })
	s.Newest = join(s.Newest, p.Newest, func(a, b int64) int64 { return max(a, b) })
}

func join(a, b *int64, fn func(a, b int64) int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	c := fn(*a, *b)
	return &c
}

// sumOf returns the sum of partitions. A topic without partitions is empty.
func sumOf(partitions []stored) stored {
	zero, none := int64(0), int64(-1)
	sum := stored{&zero, &none}
	for _, p := range partitions {
		sum.add(p)
	}
	return sum
}

func (s stored) size() string {
	if s.Bytes == nil {
		return "-"
	}
	return sizeText(*s.Bytes)
}

func (s stored) age(now time.Time) string {
	switch {
	case s.Newest == nil:
		return "-"
	case *s.Newest < 0:
		return "none"
	}
	return ageText(now.Sub(time.UnixMilli(*s.Newest))) + " ago"
}

// sizeText returns bytes in the largest power of 1024 that is not larger, with one decimal.
func sizeText(n int64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + " B"
	}
	value, unit := float64(n)/1024, 0
	for ; value >= 1023.95 && unit < len(units)-1; unit++ {
		value /= 1024
	}
	return strconv.FormatFloat(value, 'f', 1, 64) + " " + units[unit]
}

// unnamed returns an error if the size of a partition is missing. Kafka's internal topics (Topic.isInternal) hold nothing in the object store.
func unnamed(found map[string]map[int32]stored) error {
	missing := int64(0)
	for topic, partitions := range found {
		if topic == "__consumer_offsets" || topic == "__transaction_state" {
			continue
		}
		for _, p := range partitions {
			if p.Bytes == nil {
				missing++
			}
		}
	}
	if missing == 0 {
		return nil
	}
	return fmt.Errorf("no agent answered for %s", count(missing, "partition"))
}

// storedOf asks for sizes and times of the topics' partitions. Sizes come from DescribeLogDirs, times from ListOffsets with the
// timestamp -3 (KIP-734). A cluster may refuse either: storedOf then writes the reason to warn, and leaves these fields nil.
func storedOf(ctx context.Context, admin *kadm.Client, topics kadm.TopicsSet, warn io.Writer) map[string]map[int32]stored {
	found := map[string]map[int32]stored{}
	topics.Each(func(topic string, partition int32) {
		if found[topic] == nil {
			found[topic] = map[int32]stored{}
		}
		found[topic][partition] = stored{}
	})
	if len(found) == 0 {
		return found
	}
	set := func(topic string, partition int32, change func(*stored)) {
		if p, ok := found[topic][partition]; ok {
			change(&p)
			found[topic][partition] = p
		}
	}
	dirs, err := admin.DescribeAllLogDirs(ctx, topics)
	dirs.Each(func(d kadm.DescribedLogDir) {
		if d.Err != nil {
			err = d.Err
		}
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			set(p.Topic, p.Partition, func(s *stored) {
				size := p.Size
				if s.Bytes != nil {
					size = max(size, *s.Bytes) // another replica
				}
				s.Bytes = &size
			})
		})
	})
	if err == nil {
		err = unnamed(found)
	}
	if err != nil {
		fmt.Fprintf(warn, "freshet: sizes of topics are unknown: %v\n", firstOf(err))
	}
	newest, err := admin.ListMaxTimestampOffsets(ctx, topics.Topics()...)
	newest.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			err = o.Err
			return
		}
		set(o.Topic, o.Partition, func(s *stored) { s.Newest = &o.Timestamp })
	})
	if err != nil {
		fmt.Fprintf(warn, "freshet: times of the newest records are unknown: %v\n", firstOf(err))
	}
	return found
}
