package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/freshet-io/freshet/agent/cache"
)

// ask is what one other agent is asked: units of a cache's ask, by their index.
type ask struct {
	*cache.Ask
	units []int
	read  bool // from the object store, if need be
}

// fault is why a request brought less than was asked.
type fault struct {
	result  string // as metrics show it
	exclude bool   // the agent is to be left out
	err     error
}

var (
	errAbsent  = errors.New("not in memory")
	errPending = errors.New("not in memory yet")
	errNoUnit  = errors.New("unit could not be read")
	errLate    = errors.New("nothing came in time")
	errAnswer  = errors.New("answer is not of this protocol")

	errNoSecret = errors.New("the control plane tells no secret of agents")
)

// ask asks another agent and hands what it gives to take. It gives the units that it did not get, and why.
func (z *Zone) ask(ctx context.Context, p peer, a ask, take func(int, cache.Incoming) error) (rest []int, result string) {
	result = askedOK
	for from := 0; from < len(a.units); from += maxUnits {
		to := min(from+maxUnits, len(a.units))
		missing, f := z.request(ctx, p, ask{Ask: a.Ask, units: a.units[from:to], read: a.read}, take)
		rest = append(rest, missing...)
		if f == nil {
			continue
		}
		if result = f.result; f.result != askedAbsent {
			return append(rest, a.units[to:]...), result
		}
	}
	return rest, result
}

// request is one request; it counts it, and leaves the agent out where that is due.
func (z *Zone) request(ctx context.Context, p peer, a ask, take func(int, cache.Incoming) error) ([]int, *fault) {
	requests := z.requests.of(a.Class)
	if !requests.TryAcquire(1) {
		return a.units, &fault{result: askedBusy}
	}
	defer requests.Release(1)
	began := time.Now()
	missing, f := z.exchange(ctx, p, a, take)
	z.metrics.seconds.Observe(time.Since(began).Seconds())
	if f == nil || !f.exclude {
		z.welcome(p)
	}
	if f == nil {
		z.metrics.requests.WithLabelValues(askedOK).Inc()
		return missing, nil
	}
	z.metrics.requests.WithLabelValues(f.result).Inc()
	if f.exclude && ctx.Err() == nil { // which ends with this agent's cache
		z.leaveOut(p, f.result, f.err)
	}
	return missing, f
}

// exchange sends the request and takes the answer in.
func (z *Zone) exchange(ctx context.Context, p peer, a ask, take func(int, cache.Incoming) error) ([]int, *fault) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	response, f := z.send(ctx, p, a)
	if f != nil {
		return a.units, f
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return a.units, refused(response)
	}
	timer := time.AfterFunc(z.cfg.UnitTimeout, func() { cancel(errLate) })
	defer timer.Stop()
	timer.Stop()
	in := &answer{zone: z, ctx: ctx, body: bufio.NewReaderSize(response.Body, bodyBuffer), timer: timer}
	return in.takeAll(a, take)
}

// send sends the request with the current secret. An agent that refuses it may not have heard of a change yet, so the previous secret is
// next while it is valid.
func (z *Zone) send(ctx context.Context, p peer, a ask) (*http.Response, *fault) {
	valid := z.cfg.Secret.valid()
	if len(valid) == 0 { // the owner tells none any more
		return nil, &fault{askedRefused, false, errNoSecret}
	}
	for {
		r, err := z.newRequest(ctx, p, a, valid[0])
		if err != nil {
			return nil, &fault{askedUnreachable, true, err}
		}
		response, err := z.client.Do(r)
		if err != nil {
			return nil, &fault{unanswered(err), true, err}
		}
		valid = valid[1:]
		if response.StatusCode != http.StatusUnauthorized || len(valid) == 0 {
			return response, nil
		}
		_ = response.Body.Close() // it has none
	}
}

// bodyBuffer is for heads; bytes of units go around it.
const bodyBuffer = 512

func (z *Zone) newRequest(ctx context.Context, p peer, a ask, secret string) (*http.Request, error) {
	order := &cache.Order{Ask: cache.Ask{Bundle: a.Bundle, Class: a.Class}, Read: a.read}
	for _, i := range a.units {
		order.Units = append(order.Units, a.Units[i])
	}
	scheme := "http://"
	if z.cfg.TLS != nil {
		scheme = "https://"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+p.address+uri(order), nil)
	if err != nil {
		return nil, fmt.Errorf("make request to %s: %w", p.address, err)
	}
	z.introduce(r, secret)
	return r, nil
}

// introduce adds the secret, and the cluster, session and zone of this agent.
func (z *Zone) introduce(r *http.Request, secret string) {
	r.Header.Set("Authorization", "Bearer "+secret)
	snapshot := z.cfg.Catalogue.Load()
	r.Header.Set(clusterHeader, snapshot.ClusterID)
	r.Header.Set(agentHeader, strconv.FormatUint(uint64(snapshot.Session), 10))
	r.Header.Set(zoneHeader, z.cfg.Zone)
}

// unanswered is the result of a request that no headers came for.
func unanswered(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return askedUnreachable
	}
	var timed net.Error
	if errors.As(err, &timed) && timed.Timeout() {
		return askedSilent
	}
	return askedUnreachable
}

// refused tells why an agent said no.
func refused(r *http.Response) *fault {
	reason := r.Header.Get(reasonHeader)
	err := fmt.Errorf("answered %s %s", r.Status, reason)
	if reason == servedBusy {
		return &fault{askedBusy, false, err}
	}
	return &fault{askedRefused, true, err}
}

// answer is the body of one answer. It is the cache.Incoming of each unit in turn.
type answer struct {
	zone  *Zone
	ctx   context.Context // of the request
	body  *bufio.Reader
	timer *time.Timer   // ends ctx
	now   head          // of the unit being taken
	left  int64         // of its bytes, in stretches to come
	open  uint32        // left of the stretch
	err   error         // what ended the body
	time  time.Duration // left for the unit's bytes; waiting for memory here is not counted
}

// leastRate is how fast a unit's bytes must come on the whole, per second, or the object store is faster.
const leastRate = 2 << 20

// takeAll hands the units out that are there.
func (in *answer) takeAll(a ask, take func(int, cache.Incoming) error) (missing []int, f *fault) {
	for k, i := range a.units {
		if err := in.next(); err != nil {
			return append(missing, a.units[k:]...), in.cut(askedSlow, err)
		}
		switch in.now.result {
		case resultHere:
			if err := take(i, in); err != nil {
				return append(missing, a.units[k:]...), in.spurned(err)
			}
			continue
		case resultAbsent:
			f = &fault{result: askedAbsent, err: errAbsent}
			if !a.Units[i].Part {
				in.zone.noteEvicted(a.Bundle)
			}
		case resultPending:
			f = &fault{result: askedPending, err: errPending}
		default:
			f = &fault{result: askedFailed, err: errNoUnit}
		}
		missing = append(missing, i)
	}
	if end := in.end(); end != nil {
		return missing, end
	}
	return missing, f
}

// end reads the end of the body, so that the connection can be kept. An agent that hangs before the end is as one that hangs
// in a unit.
func (in *answer) end() *fault {
	in.timer.Reset(in.zone.cfg.StallTimeout)
	defer in.timer.Stop()
	_, err := in.body.Peek(1)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return &fault{askedBroken, true, errAnswer}
	}
	return in.cut(askedBroken, err)
}

// cut is the fault of a body that ended early; late names it if it is that nothing came in time.
func (in *answer) cut(late string, err error) *fault {
	if errors.Is(context.Cause(in.ctx), errLate) {
		return &fault{late, late == askedBroken, errLate}
	}
	return &fault{askedBroken, true, err}
}

// spurned is the fault of a unit that was not taken: the body's, or want of memory here.
func (in *answer) spurned(err error) *fault {
	switch {
	case in.err != nil:
		return in.cut(askedBroken, in.err)
	case errors.Is(err, cache.ErrStretches):
		return &fault{askedBroken, true, err}
	case errors.Is(err, cache.ErrUnwanted):
		return &fault{askedUnwanted, false, err}
	}
	return &fault{askedBusy, false, err}
}

// next reads the head of the next unit.
func (in *answer) next() error {
	var raw [headSize]byte
	if err := in.full(raw[:], in.zone.cfg.UnitTimeout); err != nil {
		return err
	}
	in.now = decodeHead(raw)
	in.left = in.now.size
	in.time = in.zone.cfg.UnitTimeout + time.Duration(min(in.now.size, cache.WholeUnit))*time.Second/leastRate
	return nil
}

// full reads all of p within a time.
func (in *answer) full(p []byte, within time.Duration) error {
	in.timer.Reset(within)
	defer in.timer.Stop()
	if _, err := io.ReadFull(in.body, p); errors.Is(err, io.EOF) {
		in.err = fmt.Errorf("read answer: %w", io.ErrUnexpectedEOF) // the end is not due
	} else if err != nil {
		in.err = fmt.Errorf("read answer: %w", err)
	}
	return in.err
}

// Size implements cache.Incoming.
func (in *answer) Size() int64 { return in.now.size }

// Partial implements cache.Incoming.
func (in *answer) Partial() bool { return in.now.partial }

// Next implements cache.Incoming.
func (in *answer) Next() (position, length uint32, err error) {
	if in.left == 0 && in.open == 0 {
		return 0, 0, io.EOF
	}
	var raw [stretchSize]byte
	began := time.Now()
	if err := in.full(raw[:], min(in.zone.cfg.StallTimeout, max(in.time, 0))); err != nil {
		return 0, 0, err
	}
	in.time -= time.Since(began)
	position, length = decodeStretch(raw)
	if in.open > 0 || length == 0 || int64(length) > in.left {
		in.err = fmt.Errorf("%w: a stretch of %d bytes, %d left", errAnswer, length, in.left)
		return 0, 0, in.err
	}
	in.open, in.left = length, in.left-int64(length)
	return position, length, nil
}

// Read implements cache.Incoming.
func (in *answer) Read(p []byte) (int, error) {
	p = p[:min(len(p), int(in.open))]
	if len(p) == 0 {
		return 0, io.EOF
	}
	began := time.Now()
	in.timer.Reset(min(in.zone.cfg.StallTimeout, max(in.time, 0)))
	n, err := in.body.Read(p)
	in.timer.Stop()
	in.time -= time.Since(began)
	in.open -= uint32(n)
	in.zone.metrics.bytes.Add(float64(n))
	switch {
	case err == nil || n == len(p):
		return n, nil
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	in.err = fmt.Errorf("read answer: %w", err)
	return n, in.err
}
