package groups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/bench/wire"
)

// The versions spoken: the last ones with the old headers.
const (
	joinVersion      = 3 // its first join needs no second one for the member id
	syncVersion      = 3
	heartbeatVersion = 3
	leaveVersion     = 3
)

// membersRole simulates the members of all groups. It prints "joined" when all groups are stable, and a heartbeatResult
// at the end of the measurement.
type membersRole struct {
	Address  string        `json:"address"`
	Groups   int           `json:"groups"`
	Members  int           `json:"members"` // of each group
	Lane     int           `json:"lane"`    // connections of each lane
	Interval time.Duration `json:"interval"`
	Duration time.Duration `json:"duration"` // of the heartbeats after "joined"
}

// heartbeatResult is what the members saw.
type heartbeatResult struct {
	Heartbeats int64         `json:"heartbeats"`
	Faults     int64         `json:"faults"` // answers other than "go on"
	Late       int64         `json:"late"`   // sent more than half an interval after their time
	Median     time.Duration `json:"median"`
	P99        time.Duration `json:"p99"`
}

// member is one of a connection's.
type member struct {
	group      string
	id         string
	generation int32
}

// line is a connection with the members on it.
type line struct {
	wire    *wire.Conn
	members []*member
	result  heartbeatResult
	took    []time.Duration
}

func runMembersRole(ctx context.Context, spec string, out io.Writer) error {
	var role membersRole
	if err := json.Unmarshal([]byte(spec), &role); err != nil {
		return fmt.Errorf("decode role: %w", err)
	}
	lines, err := role.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		for _, l := range lines {
			_ = l.wire.Close()
		}
	}()
	joining, joinCtx := errgroup.WithContext(ctx)
	for slot := range role.Lane {
		joining.Go(func() error { return role.join(joinCtx, lines, slot) })
	}
	if err := joining.Wait(); err != nil {
		return err
	}
	fmt.Fprintln(out, "joined")
	ctx, stop := context.WithTimeout(ctx, role.Duration)
	defer stop()
	staying, stayCtx := errgroup.WithContext(ctx)
	for _, l := range lines {
		staying.Go(func() error { return l.stay(stayCtx, role.Interval) })
	}
	if err := staying.Wait(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(sum(lines))
}

// connect opens the lanes and deals the members out.
func (r membersRole) connect(ctx context.Context) ([]*line, error) {
	lines := make([]*line, 0, r.Members*r.Lane)
	for range r.Members * r.Lane {
		w, err := wire.Dial(ctx, r.Address)
		if err != nil {
			return lines, err
		}
		lines = append(lines, &line{wire: w})
	}
	for g := range r.Groups {
		for m := range r.Members {
			l := lines[m*r.Lane+g%r.Lane]
			l.members = append(l.members, &member{group: fmt.Sprintf("bench-%d", g)})
		}
	}
	return lines, nil
}

// join takes the groups of a slot one after the other, all members of one at once.
func (r membersRole) join(ctx context.Context, lines []*line, slot int) error {
	for i := range lines[slot].members {
		for joined := false; !joined; {
			together, togetherCtx := errgroup.WithContext(ctx)
			for lane := range r.Members {
				l := lines[lane*r.Lane+slot]
				together.Go(func() error { return l.enter(togetherCtx, l.members[i], r.Members) })
			}
			err := together.Wait()
			joined = err == nil
			if err != nil && !errors.Is(err, errApart) {
				return err
			}
			if joined {
				break
			}
			for lane := range r.Members {
				if err := lines[lane*r.Lane+slot].leave(lines[lane*r.Lane+slot].members[i]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// errApart says that members of a group did not come into the same generation: on a busy machine some are late.
var errApart = errors.New("not all members are in one generation")

// enter joins a group of size members and syncs.
func (l *line) enter(ctx context.Context, m *member, size int) error {
	if err := ctx.Err(); err != nil {
		return errApart
	}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.ProtocolType = joinVersion, m.group, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 600_000, 20_000
	subscription := kmsg.NewConsumerMemberMetadata()
	subscription.Topics = []string{"bench"}
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription.AppendTo(nil)}}
	joined := kmsg.NewPtrJoinGroupResponse()
	if err := l.wire.Ask(req, joined); err != nil {
		return err
	}
	m.id, m.generation = joined.MemberID, joined.Generation
	if joined.ErrorCode != 0 || joined.LeaderID == m.id && len(joined.Members) < size {
		return errApart
	}
	return l.sync(m, joined)
}

func (l *line) sync(m *member, joined *kmsg.JoinGroupResponse) error {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = syncVersion, m.group, m.id, joined.Generation
	for _, other := range joined.Members {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{
			MemberID: other.MemberID, MemberAssignment: make([]byte, 32),
		})
	}
	resp := kmsg.NewPtrSyncGroupResponse()
	if err := l.wire.Ask(req, resp); err != nil {
		return err
	}
	if resp.ErrorCode != 0 {
		return errApart
	}
	return nil
}

// leave makes room for another try; whether the member was in the group is no matter.
func (l *line) leave(m *member) error {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = leaveVersion, m.group
	req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: m.id}}
	return l.wire.Ask(req, kmsg.NewPtrLeaveGroupResponse())
}

// stay heartbeats for all members, evenly over the interval, until the context ends.
func (l *line) stay(ctx context.Context, interval time.Duration) error {
	if len(l.members) == 0 {
		return nil
	}
	tick := time.NewTicker(interval / time.Duration(len(l.members)))
	defer tick.Stop()
	for i := 0; ; i++ {
		var due time.Time
		select {
		case <-ctx.Done():
			return nil
		case due = <-tick.C:
		}
		sent := time.Now()
		code, err := l.beat(l.members[i%len(l.members)])
		if err != nil {
			return err
		}
		l.count(code, sent.Sub(due) > interval/2, time.Since(sent))
	}
}

func (l *line) beat(m *member) (int16, error) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.Generation = heartbeatVersion, m.group, m.id, m.generation
	resp := kmsg.NewPtrHeartbeatResponse()
	err := l.wire.Ask(req, resp)
	return resp.ErrorCode, err
}

func (l *line) count(code int16, late bool, took time.Duration) {
	l.result.Heartbeats++
	if code != 0 {
		l.result.Faults++
	}
	if late {
		l.result.Late++
	}
	l.took = append(l.took, took)
}

func sum(lines []*line) heartbeatResult {
	var all heartbeatResult
	var took []time.Duration
	for _, l := range lines {
		all.Heartbeats += l.result.Heartbeats
		all.Faults += l.result.Faults
		all.Late += l.result.Late
		took = append(took, l.took...)
	}
	slices.Sort(took)
	if n := len(took); n > 0 {
		all.Median, all.P99 = took[n/2], took[n*99/100]
	}
	return all
}
