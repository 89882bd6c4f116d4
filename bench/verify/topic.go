package verify

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/bench/verify/oracle"
	"github.com/freshet-io/freshet/internal/wait"
)

// topic is one topic of a run and all that is done with it.
type topic struct {
	*run
	name    string
	txn     bool
	history *oracle.History
	first   *oracle.Reader
	groups  []*group
}

// newTopic describes a topic; create makes it.
func (r *run) newTopic(kind string) *topic {
	t := &topic{run: r, name: fmt.Sprintf("%s-%s-%s", r.cfg.Prefix, r.id, kind), txn: kind == transactional}
	t.history = oracle.New(oracle.Config{
		Topic: t.name, Run: r.number, Keys: int64(r.cfg.Keys), Partitions: int32(r.cfg.Partitions), Producers: int32(r.cfg.Producers),
		Duplicates: r.cfg.Plain && !t.txn, Now: time.Now, Findings: r.findings,
	})
	t.first = t.history.NewReader(oracle.ReaderConfig{Name: "the first reader", View: oracle.Uncommitted, First: true})
	for i := range r.cfg.Groups {
		t.groups = append(t.groups, t.newGroup(i, balancing(i%2)))
	}
	if r.cfg.NextGen {
		t.groups = append(t.groups, t.newGroup(r.cfg.Groups, byCoordinator))
	}
	return t
}

// create makes the topic, with room for all that is written to it.
func (t *topic) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Patience)
	defer cancel()
	forever := "-1"
	settings := map[string]*string{"retention.ms": &forever, "retention.bytes": &forever}
	if _, err := t.admin.CreateTopic(ctx, int32(t.cfg.Partitions), int16(t.cfg.Replication), settings, t.name); err != nil {
		return fmt.Errorf("create topic %s: %w", t.name, err)
	}
	return nil
}

// remove deletes topic and groups. What fails is left behind and said.
func (t *topic) remove(ctx context.Context) {
	for _, g := range t.groups {
		if _, err := t.admin.DeleteGroup(ctx, g.Name); err != nil {
			t.say("group %s is left behind: %v", g.Name, err)
		}
	}
	if _, err := t.admin.DeleteTopic(ctx, t.name); err != nil {
		t.say("topic %s is left behind: %v", t.name, err)
	}
}

// ends gives the ends of all partitions as of now: last stable offsets for readers of committed records. It tries again
// until ctx ends.
func (t *topic) ends(ctx context.Context, v oracle.View) (map[int32]int64, error) {
	list := t.admin.ListEndOffsets
	if v == oracle.Committed {
		list = t.admin.ListCommittedOffsets
	}
	for {
		listed, err := list(ctx, t.name)
		if err == nil {
			err = listed.Error()
		}
		ends := make(map[int32]int64)
		listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
		if err == nil && len(ends) == t.cfg.Partitions {
			return ends, nil
		}
		if err != nil && ctx.Err() == nil {
			t.failed("list ends", err)
		}
		if wait.For(ctx, time.Second) != nil {
			return nil, fmt.Errorf("list ends of %s: %w", t.name, context.Cause(ctx))
		}
	}
}

// isolation is the option of clients with a view.
func isolation(v oracle.View) kgo.Opt {
	if v == oracle.Committed {
		return kgo.FetchIsolationLevel(kgo.ReadCommitted())
	}
	return kgo.FetchIsolationLevel(kgo.ReadUncommitted())
}
