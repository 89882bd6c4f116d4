package cli

import (
	"fmt"
	"time"
)

// tellWait writes, once, the reason for which no record has come since run began.
func (k *consumer) tellWait(now time.Time) {
	if k.written > 0 {
		k.told = true
	}
	if k.told || now.Sub(k.began) < k.config.patience {
		return
	}
	k.told = true
	fmt.Fprintf(k.errs, "freshet: no record for %s: %s\n", k.config.patience, k.awaited())
}

// awaited returns the event that the consumer waits for.
func (k *consumer) awaited() string {
	topic, group := k.config.Topic, k.config.Group
	partitions := count(int64(k.reading), "partition")
	switch {
	case k.stall.newest != nil:
		return fmt.Sprintf("%v, it is tried again", k.stall.newest)
	case group != "" && !k.assigned:
		return fmt.Sprintf("waiting for group %s to assign partitions of topic %s", group, topic)
	case group != "" && k.reading == 0:
		return fmt.Sprintf("group %s assigned this member no partition of topic %s; other members have them", group, topic)
	case k.config.ExitAtEnd:
		return fmt.Sprintf("waiting for the end of %s of topic %s", count(int64(len(k.ends.open)), "partition"), topic)
	}
	reason := fmt.Sprintf("waiting for new records in %s of topic %s", partitions, topic)
	if group != "" {
		reason += fmt.Sprintf(", after the offsets of group %s", group)
	} else if k.from.kind == atLatest {
		reason += "; --from earliest reads stored records too"
	}
	if k.config.ReadCommitted {
		reason += "; records of open transactions come when these are committed"
	}
	return reason
}
