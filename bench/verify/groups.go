package verify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/bench/verify/oracle"
	"github.com/freshet-io/freshet/internal/wait"
)

const (
	commitEvery = 500 * time.Millisecond
	leaveWithin = 10 * time.Second
	groupPoll   = 500 // records
)

// group is a consumer group whose members come and go.
type group struct {
	*topic
	*oracle.Group
	reader    *oracle.Reader
	balancing balancing
}

// balancing is how a group shares out partitions.
type balancing int

const (
	eager balancing = iota
	cooperative
	byCoordinator // the consumer protocol, KIP-848
)

func (b balancing) options() []kgo.Opt {
	switch b {
	case cooperative:
		return []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())}
	case byCoordinator:
		return []kgo.Opt{kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()}
	default:
		return []kgo.Opt{kgo.Balancers(kgo.RangeBalancer())}
	}
}

func (t *topic) newGroup(n int, b balancing) *group {
	g := &group{topic: t, Group: t.history.NewGroup(fmt.Sprintf("%s-%d", t.name, n)), balancing: b}
	view := oracle.Uncommitted
	if t.txn {
		view = oracle.Committed
	}
	g.reader = t.history.NewReader(oracle.ReaderConfig{Name: "group " + g.Name, View: view, Group: true})
	return g
}

// member joins and leaves until ctx ends. While steady is not over it leaves at random.
func (g *group) member(ctx, steady context.Context, rng *rand.Rand) error {
	for ctx.Err() == nil {
		life, cancel := context.WithCancel(ctx)
		stay := time.Duration((0.25 + 1.5*rng.Float64()) * float64(g.cfg.Churn))
		leave := time.AfterFunc(stay, func() {
			if steady.Err() == nil {
				cancel()
			}
		})
		err := g.live(life)
		leave.Stop()
		cancel()
		if err != nil {
			return err
		}
		if steady.Err() == nil {
			_ = wait.For(steady, time.Duration(rng.Float64()*float64(g.cfg.Churn)/4))
		}
	}
	return nil
}

// life is one stay of a member in its group.
type life struct {
	*group
	client *kgo.Client
	failed bool // the client cannot go on

	mu struct {
		sync.Mutex
		positions map[int32]int64 // behind what was delivered and is not committed
		owned     map[int32]bool
		known     []int64 // committed for sure when partitions were assigned
		asked     time.Time
	}
}

// live consumes and commits as one member until ctx ends, then leaves.
func (g *group) live(ctx context.Context) error {
	l := &life{group: g}
	l.mu.positions, l.mu.owned = make(map[int32]int64), make(map[int32]bool)
	client, err := g.topic.client(append(g.balancing.options(),
		kgo.ConsumerGroup(g.Name), kgo.ConsumeTopics(g.name), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), isolation(g.reader.View),
		kgo.OnPartitionsAssigned(l.assigned), kgo.OnPartitionsRevoked(l.revoked), kgo.OnPartitionsLost(l.lost),
		kgo.AdjustFetchOffsetsFn(l.starts),
	)...)
	if err != nil {
		return err
	}
	l.client = client
	l.consume(ctx)
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	if err := client.LeaveGroupContext(leaving); err != nil {
		g.topic.failed("leave group", err)
	}
	client.CloseAllowingRebalance()
	return nil
}

func (l *life) consume(ctx context.Context) {
	for next := time.Now().Add(commitEvery); ctx.Err() == nil && !l.failed; l.client.AllowRebalance() {
		poll, cancel := context.WithTimeout(ctx, commitEvery)
		fetches := l.client.PollRecords(poll, groupPoll)
		cancel()
		fetches.EachRecord(l.deliver)
		fetches.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				l.topic.failed("group fetch", err)
				l.failed = l.failed || errors.Is(err, kerr.OffsetOutOfRange)
			}
		})
		if time.Now().After(next) {
			l.commit(ctx, nil)
			next = time.Now().Add(commitEvery)
		}
	}
	l.commit(ctx, nil)
	l.client.AllowRebalance()
}

func (l *life) deliver(r *kgo.Record) {
	l.reader.Read(r.Partition, seen(r))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.positions[r.Partition] = r.Offset + 1
}

// commit commits what was delivered of the partitions given, all if none are, and forgets it. It goes on when ctx ends:
// a member commits before it leaves.
func (l *life) commit(ctx context.Context, only []int32) {
	offsets := make(map[int32]kgo.EpochOffset)
	l.mu.Lock()
	if only == nil {
		for p := range l.mu.positions {
			only = append(only, p)
		}
	}
	for _, p := range only {
		if at, ok := l.mu.positions[p]; ok {
			offsets[p] = kgo.EpochOffset{Epoch: -1, Offset: at}
			delete(l.mu.positions, p)
		}
	}
	l.mu.Unlock()
	if len(offsets) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	l.client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{l.name: offsets}, l.committed)
}

func (l *life) committed(client *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
	if err != nil {
		l.topic.failed("commit offsets", err)
		return
	}
	asked := make(map[int32]int64)
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			asked[p.Partition] = p.Offset
		}
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				l.topic.failed("commit offsets", err)
				continue
			}
			l.Committed(p.Partition, asked[p.Partition], req.MemberID)
			l.commits.Add(1)
		}
	}
}

// assigned notes what the member was given, before it asks where the group stands.
func (l *life) assigned(_ context.Context, client *kgo.Client, given map[string][]int32) {
	member, generation := client.GroupMetadata()
	l.mu.Lock()
	for _, p := range given[l.name] {
		l.mu.owned[p] = true
	}
	owned := make([]int32, 0, len(l.mu.owned))
	for p := range l.mu.owned {
		owned = append(owned, p)
	}
	l.mu.known, l.mu.asked = l.Known(), time.Now()
	l.mu.Unlock()
	if l.balancing == byCoordinator { // members pass from epoch to epoch by themselves: only the coordinator's view is whole
		member, owned = "", nil
	}
	l.Assigned(generation, member, owned)
}

// starts checks where the member is told to begin.
func (l *life) starts(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, o := range offsets[l.name] {
		l.Told(p, l.mu.known[p], o.EpochOffset().Offset, "a member that was assigned the partition", l.mu.asked)
	}
	return offsets, nil
}

func (l *life) revoked(ctx context.Context, _ *kgo.Client, taken map[string][]int32) {
	l.commit(ctx, taken[l.name])
	l.lost(ctx, nil, taken)
}

func (l *life) lost(_ context.Context, _ *kgo.Client, taken map[string][]int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range taken[l.name] {
		delete(l.mu.positions, p)
		delete(l.mu.owned, p)
	}
}
