package group

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/group/classic"
	"github.com/freshet-io/freshet/controlplane/group/consumer"
	"github.com/freshet-io/freshet/controlplane/group/step"
	"github.com/freshet-io/freshet/metadata"
)

// errGone: the entry was taken out of the table before it was locked.
var errGone = errors.New("group entry is gone")

// errUnreadable: what is stored of the group is not what this version writes.
var errUnreadable = errors.New("stored group cannot be read")

// group is one group's entry: its machine, and the pipeline that carries out the machine's steps. It is in the table as
// long as there is something to remember: a group that is stored, or something under way.
type group struct {
	c    *Coordinator
	name string

	mu       sync.Mutex
	gone     bool            // not in the table any more
	life     *life           // of the machine; changes when that is thrown away
	classic  *classic.Group  // at most one of both; none before it is loaded
	consumer *consumer.Group //
	configs  uint64          // Coordinator.configs as of which the consumer group is configured
	simple   bool            // as loaded, the group had offsets only
	pipe     pipeline
	pause    pause
	commits  int // of offsets, on their way through the log
	timer    *time.Timer
	due      time.Time // when the timer fires; zero if it does not
}

// life is the time between loading a group and throwing it away.
type life struct{ failure atomic.Pointer[error] } // why it was thrown away; nil as long as it was not

// err tells why the machine was thrown away; nil as long as it was not.
func (l *life) err() error {
	if failure := l.failure.Load(); failure != nil {
		return *failure
	}
	return nil
}

func newGroup(c *Coordinator, name string) *group { return &group{c: c, name: name, life: new(life)} }

// do loads the group, calls fn and takes its step; the answers that are ready are the caller's to call.
func (g *group) do(fn func(g *group) step.Step) (ready []func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone {
		return nil, errGone
	}
	if err := g.load(); err != nil {
		g.leaveIfIdle()
		return nil, err
	}
	ready = g.carry(fn(g))
	g.settle()
	return ready, nil
}

// settle arms the timer and takes the entry out of the table if there is nothing to remember.
func (g *group) settle() {
	g.arm()
	g.leaveIfIdle()
}

// leaveIfIdle takes the entry out of the table if the state has all there is to know.
func (g *group) leaveIfIdle() {
	if !g.pipe.idle() || g.commits > 0 || g.consumer != nil && (g.consumer.Stored() || !g.consumer.Deadline().IsZero()) {
		return
	}
	if g.classic != nil && (g.classic.Stored() && (!g.simple || !g.classic.Empty()) || !g.classic.Deadline().IsZero()) {
		return
	}
	g.gone = true
	g.stopTimer()
	g.c.groups.CompareAndDelete(g.name, g)
}

// load makes the machine of what is stored, if there is none, and applies changed configs.
func (g *group) load() error {
	version := g.c.configs.Load()
	if g.classic != nil || g.consumer != nil && g.configs == version {
		return nil
	}
	var stored storedGroup
	var configs map[string]string
	if _, err := g.c.owner.Read(func(s *metadata.State) {
		configs = s.Configs(metadata.ConfigGroup, g.name)
		if g.consumer == nil {
			stored = readStored(s, g.name)
		}
	}); err != nil {
		return err
	}
	g.configs = version
	if g.consumer != nil {
		g.consumer.Configure(g.c.consumerConfig(configs))
		return nil
	}
	if err := g.restore(stored, configs); err != nil {
		g.c.log.Error("stored group cannot be read", zap.String("group", g.name), zap.Error(err))
		return fmt.Errorf("%w: %q: %w", errUnreadable, g.name, err)
	}
	return nil
}

// storedGroup is what the state has of a group. Members' values are not copied.
type storedGroup struct {
	kind    metadata.GroupKind
	exists  bool
	head    []byte
	members []metadata.GroupMember
}

func readStored(s *metadata.State, name string) storedGroup {
	info, ok := s.Group(name)
	if !ok {
		return storedGroup{}
	}
	stored := storedGroup{kind: info.Kind, exists: true, head: info.Head}
	for member, value := range info.Members {
		stored.members = append(stored.members, metadata.GroupMember{ID: member, Value: value})
	}
	return stored
}

// all gives the members as an iterator.
func (s *storedGroup) all(yield func(string, []byte) bool) {
	for _, m := range s.members {
		if !yield(m.ID, m.Value) {
			return
		}
	}
}

func (g *group) restore(stored storedGroup, configs map[string]string) (err error) {
	now := time.Now()
	g.simple = stored.kind == metadata.GroupNone
	switch {
	case !stored.exists:
		g.classic = classic.New(g.name, g.c.classic)
		return nil
	case stored.kind == metadata.GroupNone:
		g.classic = classic.Restore(g.name, g.c.classic, now, classic.Record{})
		return nil
	case stored.kind == metadata.GroupConsumer:
		g.consumer, err = consumer.Restore(g.name, g.c.consumerConfig(configs), now, stored.head, stored.all)
	case stored.kind == metadata.GroupClassic:
		var record classic.Record
		if record, err = classic.DecodeRecord(stored.head); err == nil {
			g.classic = classic.Restore(g.name, g.c.classic, now, record)
		}
	default:
		err = fmt.Errorf("group of kind %d", stored.kind)
	}
	if err == nil {
		g.c.metrics.loaded.Inc()
	}
	return err
}

// consumerConfig gives the configuration of a consumer group: the cluster's, overridden by its own configs (KIP-848's
// group configs), which have been validated when they were set.
func (c *Coordinator) consumerConfig(configs map[string]string) consumer.Config {
	cfg := c.consumer
	override := func(d *time.Duration, name string) {
		if ms, err := strconv.ParseInt(configs[name], 10, 32); err == nil && ms > 0 {
			*d = time.Duration(ms) * time.Millisecond
		}
	}
	override(&cfg.SessionTimeout, "consumer.session.timeout.ms")
	override(&cfg.HeartbeatInterval, "consumer.heartbeat.interval.ms")
	override(&cfg.AssignmentInterval, "consumer.assignment.interval.ms")
	return cfg
}

// readConsumerConfig is consumerConfig of what the state has.
func (c *Coordinator) readConsumerConfig(group string) (consumer.Config, error) {
	var configs map[string]string
	_, err := c.owner.Read(func(s *metadata.State) { configs = s.Configs(metadata.ConfigGroup, group) })
	return c.consumerConfig(configs), err
}

// stored tells whether the group exists.
func (g *group) stored() bool {
	return g.classic != nil && g.classic.Stored() || g.consumer != nil && g.consumer.Stored()
}

// empty tells whether the group has no members.
func (g *group) empty() bool {
	if g.consumer != nil {
		return g.consumer.Empty()
	}
	return g.classic.Empty()
}

// subscribed tells whether a member reads a topic.
func (g *group) subscribed(topic string) bool {
	if g.consumer != nil {
		return g.consumer.Subscribed(topic)
	}
	return g.classic.Subscribed(topic)
}
