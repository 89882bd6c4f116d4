// Package fault makes a bucket fail in chosen ways. Rules can be added and removed while it is in use; with the same
// seed and the same sequence of requests, the same requests are hit.
//
// A rule is an operation, conditions and effects:
//
//	put key~bundle nth=3 outcome-unknown-after
//	get delay=3s
//	put throttle p=0.1
//
// Operations: put, get, head, list, delete, now, create_upload, put_part, complete_upload, abort_upload, list_uploads,
// any. (For lists, the key is the prefix; for delete, any of the keys.)
//
//	condition     the rule affects a request only if
//	key~x         the key contains x
//	key^x         the key begins with x
//	key=x         the key is x
//	nth=n         it is the n-th that operation and key fit, counting from 1
//	every=n       it is the n-th, 2n-th, …
//	times=n       the rule has affected fewer than n requests
//	p=0.1         chance says so
//
//	effect                  what happens
//	delay=3s                the request waits first; goes with any other effect
//	slow=65536              a get's body comes at that many bytes per second; goes with any other effect
//	throttle                ErrThrottled, nothing done
//	fail                    ErrInjected, nothing done: a refusal that no retry heals
//	refuse                  a delete skips the keys that fit, and returns them with ErrInjected in a DeleteError
//	full                    ErrFull, nothing done
//	conflict                ErrConflict, nothing done
//	not-found               ErrNotFound, nothing done
//	outcome-unknown-before  ErrOutcomeUnknown, nothing done: the request was lost
//	outcome-unknown-after   ErrOutcomeUnknown, after the request was carried out: the answer was lost
//	stall                   the request waits until the rule is released or removed
//	stall-after             the request is carried out, its answer waits until the rule is released or removed
//	corrupt                 one bit of a get's body is flipped
//	truncate                a get's body ends half way with io.ErrUnexpectedEOF
//
// All rules that take a request count it; delays add up, and of several effects the first rule's happens. A write whose
// context ends while it waits has an unknown outcome.
package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/freshet-io/freshet/objstore"
)

// ErrInjected marks every error that a rule caused.
var ErrInjected = errors.New("injected fault")

// Bucket is another bucket with faults.
type Bucket struct {
	inner objstore.Bucket
	seed  uint64

	mu struct {
		sync.Mutex
		rules []*Rule
		added uint64
	}
}

var _ objstore.Bucket = (*Bucket)(nil)

// New wraps a bucket, without any rule at first.
func New(inner objstore.Bucket, seed uint64) *Bucket { return &Bucket{inner: inner, seed: seed} }

// Add parses rules, one per line, and puts them behind those there are. Empty lines and lines that begin with # are
// skipped. If one is wrong none is added.
func (b *Bucket) Add(text string) ([]*Rule, error) {
	var rules []*Rule
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		r, err := Parse(line)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range rules {
		b.mu.added++
		r.rng = rand.New(rand.NewPCG(b.seed, b.mu.added))
		b.mu.rules = append(b.mu.rules, r)
	}
	return rules, nil
}

// MustAdd is Add of one rule, for tests: it panics if the rule is wrong.
func (b *Bucket) MustAdd(text string) *Rule {
	rules, err := b.Add(text)
	if err != nil || len(rules) != 1 {
		panic(fmt.Sprintf("add fault rule %q: %d rules, %v", text, len(rules), err))
	}
	return rules[0]
}

// Remove takes rules away and releases their stalls.
func (b *Bucket) Remove(rules ...*Rule) {
	b.mu.Lock()
	b.mu.rules = slices.DeleteFunc(b.mu.rules, func(r *Rule) bool { return slices.Contains(rules, r) })
	b.mu.Unlock()
	for _, r := range rules {
		r.Release()
	}
}

// Clear takes all rules away.
func (b *Bucket) Clear() { b.Remove(b.Rules()...) }

// Rules gives the rules in force, in order.
func (b *Bucket) Rules() []*Rule {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.mu.rules)
}

// plan is what the rules want done to one request.
type plan struct {
	rule  *Rule // whose effect happens; nil for none
	delay time.Duration
	slow  int64
}

func (b *Bucket) plan(op objstore.Op, keys ...string) plan {
	var p plan
	for _, r := range b.Rules() {
		if !r.takes(op, keys) {
			continue
		}
		p.delay += r.delay
		if r.slow > 0 {
			p.slow = r.slow
		}
		if p.rule == nil && r.effect != effectNone {
			p.rule = r
		}
	}
	return p
}

func (p plan) is(e effect) bool { return p.rule != nil && p.rule.effect == e }

// do carries one request out under the rules.
func (p plan) do(ctx context.Context, op objstore.Op, request func() error) error {
	if err := p.before(ctx); err != nil {
		if ctx.Err() != nil && op.Writes() {
			return fmt.Errorf("%s: %w: %w", op, objstore.ErrOutcomeUnknown, err)
		}
		return fmt.Errorf("%s: %w", op, err)
	}
	err := request()
	switch {
	case p.is(effectUnknownAfter):
		return fmt.Errorf("%s: %w: %w", op, ErrInjected, objstore.ErrOutcomeUnknown)
	case p.is(effectStallAfter):
		if waitErr := p.stall(ctx); waitErr != nil {
			return fmt.Errorf("%s: %w: %w", op, objstore.ErrOutcomeUnknown, waitErr)
		}
	}
	return err
}

// before waits, and gives the error of effects that keep the request from being carried out.
func (p plan) before(ctx context.Context) error {
	if p.delay > 0 {
		if err := wait(ctx, time.After(p.delay)); err != nil {
			return err
		}
	}
	if p.rule == nil {
		return nil
	}
	switch p.rule.effect {
	case effectThrottle:
		return fmt.Errorf("%w: %w", ErrInjected, objstore.ErrThrottled)
	case effectFail:
		return ErrInjected
	case effectFull:
		return fmt.Errorf("%w: %w", ErrInjected, objstore.ErrFull)
	case effectConflict:
		return fmt.Errorf("%w: %w", ErrInjected, objstore.ErrConflict)
	case effectNotFound:
		return fmt.Errorf("%w: %w", ErrInjected, objstore.ErrNotFound)
	case effectUnknownBefore:
		return fmt.Errorf("%w: %w", ErrInjected, objstore.ErrOutcomeUnknown)
	case effectStall:
		return p.stall(ctx)
	default:
		return nil
	}
}

func (p plan) stall(ctx context.Context) error { return wait(ctx, p.rule.released) }

func wait[T any](ctx context.Context, done <-chan T) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Put puts under the rules.
func (b *Bucket) Put(ctx context.Context, key string, body objstore.Body) error {
	return b.plan(objstore.OpPut, key).do(ctx, objstore.OpPut, func() error { return b.inner.Put(ctx, key, body) })
}

// Get gets under the rules.
func (b *Bucket) Get(ctx context.Context, key string, offset, length int64) (r io.ReadCloser, err error) {
	p := b.plan(objstore.OpGet, key)
	err = p.do(ctx, objstore.OpGet, func() error {
		r, err = b.inner.Get(ctx, key, offset, length)
		return err
	})
	if err != nil {
		if r != nil {
			r.Close()
		}
		return nil, err
	}
	return p.spoil(ctx, r)
}

// Head heads under the rules.
func (b *Bucket) Head(ctx context.Context, key string) (info objstore.Info, err error) {
	err = b.plan(objstore.OpHead, key).do(ctx, objstore.OpHead, func() error {
		info, err = b.inner.Head(ctx, key)
		return err
	})
	return info, err
}

// List lists under the rules.
func (b *Bucket) List(ctx context.Context, prefix, startAfter string, limit int) (page []objstore.Info, err error) {
	err = b.plan(objstore.OpList, prefix).do(ctx, objstore.OpList, func() error {
		page, err = b.inner.List(ctx, prefix, startAfter, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// Delete deletes under the rules.
func (b *Bucket) Delete(ctx context.Context, keys []string) error {
	p := b.plan(objstore.OpDelete, keys...)
	return p.do(ctx, objstore.OpDelete, func() error {
		if !p.is(effectRefuse) {
			return b.inner.Delete(ctx, keys)
		}
		return p.rule.refuse(keys, func(others []string) error { return b.inner.Delete(ctx, others) })
	})
}

// Now asks for the time under the rules.
func (b *Bucket) Now(ctx context.Context) (now time.Time, err error) {
	err = b.plan(objstore.OpNow).do(ctx, objstore.OpNow, func() error {
		now, err = b.inner.Now(ctx)
		return err
	})
	return now, err
}

// Close closes the wrapped bucket and releases all stalls.
func (b *Bucket) Close() error {
	b.Clear()
	return b.inner.Close()
}
