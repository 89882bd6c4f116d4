package differential

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// op is one request of a sequence, drawn once and built for each server from what its client knows there.
type op struct {
	slot  int
	build func(c *client) kmsg.Request // nil: the client has nothing to send
}

// sequence is what a seed stands for.
type sequence struct {
	seed   uint64
	traits []traits
	ops    []op
}

// failure is the first unlisted difference of a sequence.
type failure struct {
	step  int
	what  string // the request that was answered differently
	diffs []string
	trace []string
}

// kind names the difference without what varies between two plays.
func (f *failure) kind() string {
	return f.what + " " + strings.Join(f.diffs, "; ")
}

// play is one run of a sequence against both servers.
type play struct {
	sequence
	freshet, kafka *half
	under          []*pair // by client; nil: none under way
	trace          []string
	seen           map[string]int // listed differences, by reason
	requests       int
	failed         bool
}

// pair is a request under way at both servers.
type pair struct {
	step           int
	freshet, kafka *call
}

// Bounds of waiting. A request that neither server answers within unanswered waits for other members.
const (
	unanswered = 40 * time.Millisecond
	other      = 10 * time.Second
)

var plays atomic.Int64

// run plays a sequence under fresh names. between, if set, is called before each request and reports whether it changed
// the coordinators.
func run(s sequence, servers [2]*server, worker int, between func(step int) bool) (*failure, *play) {
	tag := fmt.Sprintf("s%dx", plays.Add(1))
	p := &play{
		sequence: s, under: make([]*pair, len(s.traits)), seen: map[string]int{},
		freshet: newHalf(servers[0], tag, worker, s.traits), kafka: newHalf(servers[1], tag, worker, s.traits),
	}
	defer p.freshet.close()
	defer p.kafka.close()
	for _, h := range []*half{p.freshet, p.kafka} {
		if err := h.findBase(); err != nil {
			return &failure{what: "ListOffsets", diffs: []string{err.Error()}}, p
		}
	}
	defer p.finish()
	for i, o := range s.ops {
		if between != nil && between(i) {
			p.trace = append(p.trace, fmt.Sprintf("%d -- the coordinators change", i))
			p.resettle()
			if f, ends := p.collectAll(); f != nil || ends {
				return f, p
			}
		}
		if f, ends := p.step(i, o); f != nil || ends {
			return f, p
		}
	}
	return nil, p
}

// findBase notes the ends of the worker's partitions: offsets are compared from there.
func (h *half) findBase() error {
	for p := range int32(txnPartitions) {
		for end := time.Now().Add(settleLimit); ; {
			resp, err := h.control.do(listEnd(txnTopic(h.worker), p, 0))
			if err == nil {
				r := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
				if r.ErrorCode == 0 {
					h.base[p] = r.Offset
					break
				}
			}
			if time.Now().After(end) {
				return fmt.Errorf("%s: no end of partition %d", h.server.name, p)
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	return nil
}

// step sends one request to both, compares the answers, and those of requests that waited until now.
func (p *play) step(i int, o op) (_ *failure, ends bool) {
	if p.under[o.slot] != nil {
		return nil, false
	}
	f, k := p.freshet.clients[o.slot], p.kafka.clients[o.slot]
	fr, kr := o.build(f), o.build(k)
	if fr == nil || kr == nil {
		return nil, false
	}
	if fr.Key() != kr.Key() || fr.GetVersion() != kr.GetVersion() {
		return p.fail(i, fr, []string{"clients diverged"}), true
	}
	p.requests++
	p.trace = append(p.trace, fmt.Sprintf("%d %s: %s", i, f.wire.clientID, p.freshet.show(fr)))
	u := &pair{step: i, freshet: f.start(fr), kafka: k.start(kr)}
	p.under[o.slot] = u
	if !parks(fr) {
		u.freshet.wait(wireLimit)
		u.kafka.wait(wireLimit)
	} else if !u.kafka.wait(unanswered) && !u.freshet.wait(unanswered) {
		p.barrier()
	}
	return p.collectAll()
}

// collectAll compares all answers that have come.
func (p *play) collectAll() (_ *failure, ends bool) {
	for slot := range p.under {
		if f, ends := p.collect(slot); f != nil || ends {
			return f, ends
		}
	}
	return nil, false
}

// parks reports whether a request may wait for other members.
func parks(req kmsg.Request) bool {
	return req.Key() == int16(kmsg.JoinGroup) || req.Key() == int16(kmsg.SyncGroup)
}

// barrier waits until both servers have looked at what was sent before.
func (p *play) barrier() {
	for _, h := range []*half{p.freshet, p.kafka} {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{h.group(0)}
		req.SetVersion(5)
		_, _ = h.control.do(req) // only the time it takes counts
	}
	<-time.After(unanswered / 2)
}

// collect compares the answers to a client's request, if either server has answered it.
func (p *play) collect(slot int) (_ *failure, ends bool) {
	u := p.under[slot]
	if u == nil {
		return nil, false
	}
	inFreshet, inKafka := u.freshet.wait(0), u.kafka.wait(0)
	if !inFreshet && !inKafka {
		return nil, false
	}
	if !u.freshet.wait(other) {
		return p.oneWaits(u, fmt.Sprintf("waits in freshet, answered with %d in kafka", codeOf(u.kafka.got.resp)))
	}
	if !u.kafka.wait(other) {
		return p.oneWaits(u, fmt.Sprintf("answered with %d in freshet, waits in kafka", codeOf(u.freshet.got.resp)))
	}
	p.under[slot] = nil
	f, k := p.freshet.clients[slot], p.kafka.clients[slot]
	answers := [2]answer{}
	for i, c := range []*client{f, k} {
		got := []*call{u.freshet, u.kafka}[i].got
		if got.err == nil {
			c.learn([]*call{u.freshet, u.kafka}[i].req, got.resp)
		}
		answers[i] = c.normalize(got.resp, got.err)
	}
	p.trace = append(p.trace, fmt.Sprintf("   %s <- kafka: %s", f.wire.clientID, answers[1]))
	if r, ok := u.kafka.got.resp.(*kmsg.JoinGroupResponse); ok && r.ErrorCode == kerr.UnknownMemberID.Code && p.kafka.emptied() {
		p.seen[emptied]++
		ends = true
	}
	var unlisted []string
	found := differences(answers[0], answers[1])
	for _, d := range found {
		entry := p.find(u.freshet.req, d, found)
		if entry == nil {
			unlisted = append(unlisted, d)
			continue
		}
		p.seen[entry.reason]++
		ends = ends || entry.ends
	}
	if len(unlisted) > 0 {
		p.trace = append(p.trace, fmt.Sprintf("   %s <- freshet: %s", f.wire.clientID, answers[0]))
		return p.fail(u.step, u.freshet.req, unlisted), true
	}
	return nil, ends
}

// oneWaits ends a sequence in which one server lets a request wait and the other does not.
func (p *play) oneWaits(u *pair, difference string) (_ *failure, ends bool) {
	if entry := p.find(u.freshet.req, difference, []string{difference}); entry != nil {
		p.seen[entry.reason]++
		return nil, true
	}
	return p.fail(u.step, u.freshet.req, []string{difference}), true
}

// emptied reports whether the group may be a consumer group without members: nobody knows to be in it.
func (h *half) emptied() bool {
	return h.wasModern && !slices.ContainsFunc(h.clients, func(c *client) bool { return c.epoch > 0 })
}

// resettle waits, after the coordinators changed, until both groups are served, and requests that wait do so again.
func (p *play) resettle() {
	for _, h := range []*half{p.freshet, p.kafka} {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{h.group(0)}
		req.SetVersion(5)
		for end := time.Now().Add(settleLimit); time.Now().Before(end); {
			resp, err := h.control.do(req)
			if err == nil && !transient(resp) {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	if slices.ContainsFunc(p.under, func(u *pair) bool { return u != nil }) {
		<-time.After(10 * unanswered)
		p.barrier()
	}
}

// codeOf is the code of a response that may have been waited for.
func codeOf(resp kmsg.Response) int16 {
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		return r.ErrorCode
	case *kmsg.SyncGroupResponse:
		return r.ErrorCode
	default:
		return -1
	}
}

func (p *play) fail(step int, req kmsg.Request, diffs []string) *failure {
	p.failed = true
	slices.Sort(diffs)
	return &failure{
		step: step, what: fmt.Sprintf("%s v%d", kmsg.NameForKey(req.Key()), req.GetVersion()), diffs: diffs,
		trace: slices.Clone(p.trace),
	}
}

// finish aborts what the sequence left open, so that it holds nobody else's last stable offset.
func (p *play) finish() {
	for _, h := range []*half{p.freshet, p.kafka} {
		for n := range 2 {
			if !slices.ContainsFunc(h.clients, func(c *client) bool { return c.traits.id == n && c.open }) {
				continue
			}
			id := h.txn(n)
			req := kmsg.NewPtrInitProducerIDRequest()
			req.TransactionalID, req.TransactionTimeoutMillis = &id, 60_000
			req.SetVersion(4)
			for end := time.Now().Add(settleLimit); time.Now().Before(end); {
				resp, err := h.control.do(req)
				if err == nil && !transient(resp) {
					break
				}
				<-time.After(5 * time.Millisecond)
			}
		}
	}
}

// show prints a request.
func (h *half) show(req kmsg.Request) string {
	text := fmt.Sprintf("%s v%d %+v", kmsg.NameForKey(req.Key()), req.GetVersion(), jsonOf(req))
	return strings.ReplaceAll(text, h.tag, "~")
}
