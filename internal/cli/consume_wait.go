package cli

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// tellWait writes, once, the reason for which no record has come since run began. If agents refuse connections, it writes that.
func (k *consumer) tellWait(now time.Time) {
	if k.tellSilence(now) {
		return
	}
	if k.written > 0 {
		k.told = true
	}
	if k.told || now.Sub(k.began) < k.config.patience {
		return
	}
	k.told = true
	fmt.Fprintf(k.errs, "freshet: no record for %s: %s\n", durationText(k.config.patience), k.awaited())
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

// contact keeps the time of the newest answer of an agent, and the error of connections that were refused since. It implements
// kgo.HookBrokerConnect and kgo.HookBrokerRead.
type contact struct {
	mu struct {
		sync.Mutex
		answered time.Time
		refused  error // nil after an answer
	}
	told bool // a line about refused connections is the newest; of the consumer alone
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (c *contact) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil || isEnd(err) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.refused = err
}

// OnBrokerRead implements kgo.HookBrokerRead.
func (c *contact) OnBrokerRead(_ kgo.BrokerMetadata, _ int16, _ int, _, _ time.Duration, err error) {
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.answered, c.mu.refused = time.Now(), nil
}

// refused returns the error of refused connections if no agent has answered for the patience, else nil.
func (c *contact) refused(now time.Time, patience time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.mu.answered) < patience {
		return nil
	}
	return c.mu.refused
}

// tellSilence reports whether agents have refused connections for the patience. It writes one line about that, until the next answer.
func (k *consumer) tellSilence(now time.Time) bool {
	err := k.contact.refused(now, k.config.patience)
	if err != nil && !k.contact.told {
		fmt.Fprintf(k.errs, "freshet: no answer from %s for %s; still trying: %v\n",
			strings.Join(k.config.Bootstrap, ","), durationText(k.config.patience), err)
	}
	k.contact.told = err != nil
	return k.contact.told
}
